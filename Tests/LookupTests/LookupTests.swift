import Lookup
import OrderedCollections
import Testing

@Suite struct LookupTests {
  @Test func aTable_knowsWhatWasPutIn() {
    var table: LookupTable<String, Int> = ["a": 1, "b": 2]
    table["c"] = 3
    table["a"] = nil
    table["d", default: 10] += 1
    #expect(table["a"] == nil && table["b"] == 2 && table["c"] == 3 && table["d"] == 11)
    #expect(table.updateValue(5, forKey: "b") == 2 && table.removeValue(forKey: "b") == 5)
    #expect(table.sorted().map(\.key) == ["c", "d"])
    #expect(table.filter { _, value in value > 3 } == ["d": 11])
    #expect(table.mapValues { $0 * 2 } == ["c": 6, "d": 22])
    #expect(table.values { $0 > 3 ? $0 : nil } == [11])
  }

  @Test func ofSeveralPairsWithOneKey_theLatestCounts() {
    #expect(LookupTable([(1, "a"), (2, "b"), (1, "c")]) == [1: "c", 2: "b"])
  }

  @Test func aSet_knowsWhatWasPutIn() {
    var set: LookupSet<Int> = [3, 1]
    #expect(set.insert(2).inserted && !set.insert(2).inserted && set.remove(1) == 1 && set.remove(1) == nil)
    #expect(set.contains(3) && !set.contains(1) && set.sorted() == [2, 3])
    #expect(set.subtracting([3]) == [2] && set.map { $0 * 2 } == [4, 6] && set.filter { $0 > 2 } == [3])
  }

  /// A walk through it meets the entries in an order that follows from what was done.
  @Test func takingOut_movesTheLastEntryToItsPlace() {
    var table: OrderedDictionary = [1: "a", 2: "b", 3: "c", 4: "d"]
    table.takeOut(2)
    table.takeOut(9)
    #expect(table == [1: "a", 4: "d", 3: "c"])
    table.takeOut(3)
    #expect(table == [1: "a", 4: "d"])
    var set: OrderedSet = [1, 2, 3, 4]
    set.takeOut(1)
    #expect(set == [4, 2, 3])
  }
}
