import FileModel

/// Which mark a file is to have, from its writers' activity, what became of the content, and what the disk has of it. Pure: who puts the
/// mark is `Filesystem+Marks`.
extension CapturedFile.State {
  /// What the next run has to know as long as it is being written. What is missing, or in memory alone, its writer's death does not
  /// explain, and a later writer that goes on does not make it good.
  func markWhileWriting(in instance: SpoolInstance) -> WriterStateXattr {
    if let lack = integrity.present.lack { return .interrupted(lack) }
    return !writeBack.isRefused ? .writing(in: instance) : .interrupted(.notOnDisk)
  }

  /// What is known of the content once its writers have closed it.
  func markOnceClosed(
    in instance: SpoolInstance, sizeBytes: () throws(SystemError) -> UInt64
  ) throws(SystemError) -> WriterStateXattr {
    if let lack = contentIntegrity.lack { return .interrupted(lack) }
    if writeBack.isRefused { return .interrupted(.notOnDisk) }
    if let interruption = contentIntegrity.interruption {
      return disk.isSynchronized ? .interrupted(interruption) : .ended(interruption, in: instance)
    }
    guard !disk.isSynchronized else { return .none }
    return .closed(sizeBytes: try sizeBytes(), in: instance)
  }

  /// The disk has what is there of the content: only what is missing is still to be said.
  var markOnceOnDisk: WriterStateXattr {
    integrity.present.interruption.map { WriterStateXattr.interrupted($0) } ?? .none
  }

  /// The mark that takes the place of this one once the disk has the content; nil where the mark stays.
  var markToReplaceOnDisk: WriterStateXattr? {
    let wanted = markOnceOnDisk
    switch disk.mark {
    case .closed?, .ended?: return wanted
    // It was in memory alone for a while.
    case .interrupted(.notOnDisk)? where disk.mark != wanted && activity.isSettled: return wanted
    default: return nil
    }
  }

  /// The settled content was given to its disk again. Should the machine stop while the disk refuses it, the mark says so.
  var markOnceSaved: WriterStateXattr {
    let isInMemory = writeBack.isRefused && integrity.present.lack == nil
    return isInMemory ? .interrupted(.notOnDisk) : markOnceOnDisk
  }
}
