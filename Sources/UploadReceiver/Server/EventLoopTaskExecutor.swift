import NIOCore

/// Runs a connection's tasks on its event loop: the bytes that the loop has just decrypted are hashed by the same core,
/// while they are in its cache. No thread has to be woken for each piece of a body.
final class EventLoopTaskExecutor: TaskExecutor {
  private let eventLoop: any EventLoop

  init(_ eventLoop: any EventLoop) {
    self.eventLoop = eventLoop
  }

  func enqueue(_ job: consuming ExecutorJob) {
    let job = UnownedJob(job)
    eventLoop.execute { [self] in
      job.runSynchronously(on: asUnownedTaskExecutor())
    }
  }
}
