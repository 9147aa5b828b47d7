import CISAL
import CLZ4
import COpenSSL
import CZSTD

/// The libraries that digests, encryption and compression come from.
public enum IntegrityLibraries {
  /// Each with its version, as it is loaded; of ISA-L as it was compiled with.
  public static var versions: [String] {
    [
      "OpenSSL \(String(cString: uploadfs_openssl_version()))", "Zstandard \(String(cString: uploadfs_zstd_version()))",
      "LZ4 \(String(cString: uploadfs_lz4_version()))", "ISA-L \(String(cString: uploadfs_isal_version()))",
    ]
  }
}
