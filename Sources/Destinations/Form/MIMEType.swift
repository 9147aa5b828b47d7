import Lookup

/// The media type of a file, by the end of its name: what capture tools write.
enum MIMEType {
  /// For everything that is not known.
  static let unknown = "application/octet-stream"

  private static let types: LookupTable<String, String> = [
    "mov": "video/quicktime", "mp4": "video/mp4", "m4v": "video/mp4", "mkv": "video/x-matroska", "webm": "video/webm",
    "avi": "video/x-msvideo", "mxf": "application/mxf", "mpg": "video/mpeg", "mpeg": "video/mpeg", "ts": "video/mp2t",
    "wav": "audio/wav", "flac": "audio/flac", "mp3": "audio/mpeg", "m4a": "audio/mp4", "ogg": "audio/ogg",
    "opus": "audio/ogg", "aiff": "audio/aiff", "aif": "audio/aiff",
    "jpg": "image/jpeg", "jpeg": "image/jpeg", "png": "image/png", "gif": "image/gif", "webp": "image/webp",
    "tif": "image/tiff", "tiff": "image/tiff", "bmp": "image/bmp", "heic": "image/heic", "avif": "image/avif",
    "svg": "image/svg+xml", "dng": "image/x-adobe-dng", "exr": "image/x-exr", "jp2": "image/jp2",
    "dcm": "application/dicom",
    "pdf": "application/pdf", "zip": "application/zip", "gz": "application/gzip", "tar": "application/x-tar",
    "7z": "application/x-7z-compressed", "zst": "application/zstd", "json": "application/json",
    "xml": "application/xml",
    "txt": "text/plain", "log": "text/plain", "csv": "text/csv", "html": "text/html", "htm": "text/html",
    "h5": "application/x-hdf5", "hdf5": "application/x-hdf5", "fits": "application/fits",
    "nii": "application/octet-stream",
  ]

  static func ofFile(named name: String) -> String { types[name.splitAtExtension.ext.lowercased()] ?? unknown }
}
