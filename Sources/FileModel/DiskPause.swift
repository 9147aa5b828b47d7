/// The pauses between two tries of what a disk refuses: they double up to a bound, because disks that are away come back at once or
/// after a long time.
package enum DiskPause {
  package static let secondsMax = 30
}
