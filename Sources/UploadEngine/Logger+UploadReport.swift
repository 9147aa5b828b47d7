import FileModel
import Logging
import TransferModel

extension Logger {
  /// Says what a person who reads the log has to know of a decision.
  func log(_ report: UploadReport) {
    switch report {
    case .delivered(_, let path, let receipt):
      var facts: Metadata = ["path": "\(path.displayText)", "receipt": "\(ShownAddress.of(receipt.id))"]
      if let milliseconds = receipt.durationMilliseconds { facts["seconds"] = "\(Double(milliseconds) / 1000)" }
      if let rate = receipt.meanBytesPerSecond { facts["bytes_per_second"] = "\(UInt64(rate))" }
      // By a template, or as the destination writes it.
      if !receipt.name.utf8.elementsEqual(path.displayText.utf8) { facts["name"] = "\(receipt.name)" }
      if let replaced = receipt.replaced {
        facts["published_as"] = receipt.publishedAs.map { "\($0)" }
        return notice(
          "delivered in the place of another file, as if-exists says: \(replaced)", metadata: facts)
      }
      if let other = receipt.publishedAs {
        facts["published_as"] = "\(other)"
        // What lies there stays: after a server was restored it may be an earlier content of this very file.
        facts["name"] = "\(receipt.name)"
        return notice(
          "delivered under another name: its own was taken when that was chosen, and what lies there stays",
          metadata: facts)
      }
      info("delivered", metadata: facts)
    case .retrying(_, let path, let failure):
      warning(
        "waiting to try again",
        metadata: ["path": "\(path.displayText)", "code": "\(failure.code)", "reason": "\(failure.message)"])
    case .chunkSentAgain(_, let path, let failure):
      info(
        "a chunk of a file has not arrived; it is sent again",
        metadata: ["path": "\(path.displayText)", "code": "\(failure.code)", "reason": "\(failure.message)"])
    case .setBack(_, let path, let failure, let count, let wasSent):
      warning(
        wasSent
          ? "what was sent of a file is of no use; it goes out again" : "a file is not taken, and is tried again",
        metadata: [
          "path": "\(path.displayText)", "code": "\(failure.code)", "reason": "\(failure.message)", "times": "\(count)",
        ])
    case .leftForTheEnd(_, let path, let failure, let count):
      warning(
        "what is sent of a file before it is closed and has its final name is of no use; nothing more is sent until then",
        metadata: [
          "path": "\(path.displayText)", "code": "\(failure.code)", "reason": "\(failure.message)", "times": "\(count)",
        ])
    case .requestsShortened(let bytes, let failure):
      warning(
        "a request was too long for the server or what stands before it; uploads go on in shorter ones, and slower",
        metadata: ["bytes_max": "\(bytes)", "code": "\(failure.code)", "reason": "\(failure.message)"])
    case .publishing(_, let path, let time):
      notice(
        "the server has all of a file and is still publishing it",
        metadata: ["path": "\(path.displayText)", "seconds": "\(time.components.seconds)"])
    case .failed(_, let path, let failure):
      error(
        "not delivered; the file is kept in the spool",
        metadata: ["path": "\(path.displayText)", "code": "\(failure.code)", "reason": "\(failure.message)"])
    case .outgrown(_, let path, let failure):
      warning(
        "a file that is being written has outgrown what the destination takes; it is recorded on and kept in the spool",
        metadata: ["path": "\(path.displayText)", "code": "\(failure.code)", "reason": "\(failure.message)"])
    case .releasing(_, let path):
      notice(
        "the disk is full: parts of a file that the server holds are given up here",
        metadata: ["path": "\(path.displayText)"])
    case .notReleasing(_, let path, let failure):
      warning(
        "the server does not keep more of a file on its disk, so nothing more of it is given up here",
        metadata: ["path": "\(path.displayText)", "code": "\(failure.code)", "reason": "\(failure.message)"])
    case .scanFailing(let path, let failure):
      error(
        "the spool cannot be read as a whole; some of what lies in it may be missing from status, and waits",
        metadata: ["path": "\(path.displayText)", "code": "\(failure.code)", "reason": "\(failure.message)"])
    case .refusedByDisk(_, let path, let failure):
      error(
        "the spool's disk does not take what was written",
        metadata: ["path": "\(path.displayText)", "code": "\(failure.code)", "reason": "\(failure.message)"])
    case .takenByDisk(_, let path):
      notice("the spool's disk has taken what it had refused", metadata: ["path": "\(path.displayText)"])
    case .interrupted(_, let path, let failure):
      warning(
        "not finished by its writer; the file is kept in the spool and not published",
        metadata: ["path": "\(path.displayText)", "code": "\(failure.code)", "reason": "\(failure.message)"])
    case .unproven(let count):
      warning(
        "nothing proves of files in the spool that they were finished; they are kept and not published (uploadfs-mount publish)",
        metadata: ["files": "\(count)"])
    case .forgotten(let count, let compared):
      warning(
        "the catalog knows nothing of files that lay in the spool: what is whole, and not at the receiver already, is sent again",
        metadata: ["files": "\(count)", "compared": "\(compared)"])
    case .beyondMemory(let filesMax):
      notice(
        "there are more files than memory holds; the others are known to the catalog alone, and are delivered as these are",
        metadata: ["files_in_memory": "\(filesMax)"])
    case .discarded(_, let path, let failure):
      warning(
        "not finished by its writer; the file was removed from the spool by rule",
        metadata: ["path": "\(path.displayText)", "code": "\(failure.code)"])
    case .destinationUnavailable(let failure):
      warning(
        "the destination is not available; everything waits",
        metadata: ["code": "\(failure.code)", "reason": "\(failure.message)"])
    case .straggling(_, let path):
      info(
        "the last parts of a file hang on a slow connection; they are sent again over another one",
        metadata: ["path": "\(path.displayText)"])
    case .stuck(_, let path):
      warning("no progress; connecting anew", metadata: ["path": "\(path.displayText)"])
    case .credentialsRefused(let failure):
      error(
        "the destination refuses the credentials; nothing can be delivered with them",
        metadata: ["code": "\(failure.code)", "reason": "\(failure.message)"])
    case .resumed(let pause):
      notice(
        "nothing was done for a while: the machine slept, or this program was stopped, frozen or held up; connecting anew",
        metadata: ["seconds": "\(pause.components.seconds)"])
    case .destinationAvailable:
      info("the destination is available again")
    case .notResumed(_, let path, let reason):
      warning(
        "an earlier upload of the file cannot be gone on with; the file is kept and sent again",
        metadata: ["path": "\(path.displayText)", "reason": "\(reason)"])
    case .takenOver(_, let path, let count):
      notice(
        "parts that the spool's disk has lost are delivered as the server has them",
        metadata: ["path": "\(path.displayText)", "chunks": "\(count)"])
    case .notSent(_, let path):
      error(
        "a chunk was chosen and could not be sent; this is a mistake of uploadfs, please report it",
        metadata: ["path": "\(path.displayText)"])
    case .contradiction(let text):
      error(
        "uploadfs contradicts itself and goes on; this is a mistake of uploadfs, please report it",
        metadata: ["contradiction": "\(text)"])
    case .missingFromSpool(_, let path):
      warning(
        "a file that was still to be delivered is no longer in the spool",
        metadata: ["path": "\(path.displayText)"])
    }
  }
}
