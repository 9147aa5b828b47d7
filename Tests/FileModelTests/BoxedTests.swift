import FileModel
import SeededRandom
import Testing

/// Values of which there is one for each of a hundred thousand files.
@Suite struct BoxedTests {
  private struct Limit: DefaultInitializable, Hashable {
    var bytes = 7
  }

  private struct Owner: Hashable {
    @Boxed var name: String?
    var value = 0
  }

  private struct Holder {
    @BoxedUnlessDefault var limit = Limit()
  }

  @Test func rareValue_isThereOrNot_andTakesAWord() {
    var owner = Owner()
    #expect(owner.name == nil && MemoryLayout<Owner>.size == 16)
    owner.name = "a"
    let copy = owner
    owner.name? += "b"
    #expect(owner.name == "ab" && copy.name == "a" && owner != copy)
    owner.name = nil
    #expect(owner.name == nil && owner == Owner() && owner.hashValue == Owner().hashValue)
  }

  @Test func valueThatIsRarelyOther_isWhatItBeganAs_untilItIsAnother() {
    var holder = Holder()
    #expect(holder.limit == Limit() && MemoryLayout<Holder>.size == 8)
    holder.limit.bytes += 1
    let copy = holder
    holder.limit.bytes = 7
    #expect(holder.limit == Limit() && copy.limit.bytes == 8)
    #expect(Holder(limit: Limit(bytes: 9)).limit.bytes == 9)
  }

  /// Whatever is done to it.
  @Test func few_areAnArray() {
    var random = SplitMix(seed: 42)
    var few: SmallArray<Int> = []
    var array: [Int] = []
    for step in 0..<5000 {
      switch Int.random(in: 0..<7, using: &random) {
      case 0, 1:
        few.append(step)
        array.append(step)
      case 2:
        few.insert(step, at: 0)
        array.insert(step, at: 0)
      case 3 where !array.isEmpty:
        let position = Int.random(in: 0..<array.count, using: &random)
        few[position] = step
        array[position] = step
      case 4 where !array.isEmpty:
        let position = Int.random(in: 0..<array.count, using: &random)
        #expect(few.remove(at: position) == array.remove(at: position))
      case 5:
        few.removeAll { $0 % 3 == step % 3 }
        array.removeAll { $0 % 3 == step % 3 }
      default:
        few = few.count == 1 ? SmallArray(array) : few
      }
      #expect(Array(few) == array && few.first == array.first && few.last == array.last && few.count == array.count)
    }
  }
}
