import CFuse
import Glibc

/// One request of the kernel as it comes from libfuse: the mount it is for, and the answer it is owed.
struct Call: ~Copyable {
  let mount: FuseMount
  let reply: Reply
  /// For libfuse's own functions only; the answer goes through ``reply``.
  let rawRequest: fuse_req_t

  /// Nil only if libfuse called back without a request, which it does not.
  init?(_ request: fuse_req_t?) {
    guard let request, let userdata = fuse_req_userdata(request) else { return nil }
    // The mount outlives its session: FuseMount destroys the session in its deinit.
    mount = Unmanaged<FuseMount>.fromOpaque(userdata).takeUnretainedValue()
    reply = Reply(request)
    rawRequest = request
  }

  var filesystem: Filesystem { mount.filesystem }

  var caller: Caller {
    guard let context = fuse_req_ctx(rawRequest) else { return Caller(user: geteuid(), group: getegid()) }
    return Caller(user: context.pointee.uid, group: context.pointee.gid, thread: context.pointee.pid)
  }

  /// Answers with what `body` returns, or with its error.
  consuming func answer<Value>(
    _ body: (Filesystem) throws(SystemError) -> Value, _ send: (consuming Reply, Value) -> Void
  ) {
    let value: Value
    do {
      value = try body(mount.filesystem)
    } catch {
      return reply.failure(error)
    }
    send(reply, value)
  }
}

extension Call {
  /// Answers with an entry, or with "no such name"; takes the count back when the kernel has dropped the request.
  consuming func answerEntry(
    isVirtualPlace: Bool = false, _ body: (Filesystem) throws(SystemError) -> FoundEntry?
  ) {
    let filesystem = filesystem
    answer(body) { reply, found in
      if !reply.entry(found, isVirtualPlace: isVirtualPlace), let found { filesystem.forget(found.node, count: 1) }
    }
  }

  /// Answers that it was done.
  consuming func answerDone(_ body: (Filesystem) throws(SystemError) -> Void) {
    answer(body) { reply, _ in reply.done() }
  }

  /// Answers that it was done; not before what `body` gives is delivered.
  consuming func answerDelivered(_ body: (Filesystem) throws(SystemError) -> AwaitedDelivery?) {
    let waitingCalls = mount.waitingCalls
    answer(body) { reply, awaited in
      guard let awaited else { return reply.done() }
      waitingCalls.keep(reply.deferred(), until: awaited)
    }
  }

  /// For requests that take no answer.
  consuming func nothing() {
    reply.nothing()
  }
}

extension NodeID {
  init(_ number: fuse_ino_t) { self.init(rawValue: UInt64(number)) }
}

extension DirectoryEntry {
  init(_ directory: fuse_ino_t, _ name: UnsafePointer<CChar>?) {
    self.init(directory: NodeID(directory), name: name.map { EntryName(cString: $0) } ?? EntryName(bytes: []))
  }
}
