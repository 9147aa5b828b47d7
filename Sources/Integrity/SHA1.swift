import COpenSSL

/// SHA-1 of the bytes, 20 bytes, for protocols that know no better checksum: it finds damage, and no attack. Nil where this
/// machine's OpenSSL is not allowed to use it.
public func sha1(_ bytes: UnsafeRawBufferPointer) -> [UInt8]? {
  var isDone = false
  let digest = [UInt8](unsafeUninitializedCapacity: Int(UPLOADFS_SHA1_BYTES)) { output, count in
    isDone = uploadfs_sha1(bytes.baseAddress, bytes.count, output.baseAddress) == 1
    count = isDone ? Int(UPLOADFS_SHA1_BYTES) : 0
  }
  return isDone ? digest : nil
}
