// swift-tools-version:6.2
import PackageDescription

/// Swift 6 mode; what is public is said, what is imported is said, and a warning is an error.
let strict: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .treatAllWarnings(as: .error),
]

let package = Package(
  name: "uploadfs",
  products: [
    .executable(name: "uploadfs-mount", targets: ["uploadfs-mount"]),
    .executable(name: "uploadfs-receiver", targets: ["uploadfs-receiver"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-log", from: "1.14.0"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.0"),
    .package(url: "https://github.com/apple/swift-nio-extras", from: "1.34.1"),
    .package(url: "https://github.com/apple/swift-nio-http2", from: "1.45.0"),
    .package(url: "https://github.com/apple/swift-nio-ssl", from: "2.37.2"),
    .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
    .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.0"),
    .package(url: "https://github.com/jpsim/Yams", from: "6.2.0"),
  ],
  targets: [
    // C borders. Each header says why each wrapper exists.
    .systemLibrary(name: "CFuse3System", pkgConfig: "fuse3", providers: [.apt(["libfuse3-dev"])]),
    .systemLibrary(name: "CCurlSystem", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
    .systemLibrary(name: "COpenSSLSystem", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CISALSystem", pkgConfig: "libisal", providers: [.apt(["libisal-dev"])]),
    .systemLibrary(name: "CLZ4System", pkgConfig: "liblz4", providers: [.apt(["liblz4-dev"])]),
    .target(name: "CFuse", dependencies: ["CFuse3System"]),
    .target(name: "CCurl", dependencies: ["CCurlSystem"]),
    .target(name: "COpenSSL", dependencies: ["COpenSSLSystem"]),
    .target(name: "CISAL", dependencies: ["CISALSystem"]),
    .target(name: "CLZ4", dependencies: ["CLZ4System"]),
    .target(name: "CSHA256"),
    .target(name: "CLinux"),

    // Values that the layers share, and what client and receiver must agree on.
    .target(name: "FileModel", swiftSettings: strict),
    .target(name: "Integrity", dependencies: ["COpenSSL", "CISAL", "CLZ4", "CSHA256"], swiftSettings: strict),
    .target(name: "ChunkProtocol", dependencies: ["Integrity"], swiftSettings: strict),

    // The client.
    .target(name: "UploadFS", dependencies: ["FileModel", "CFuse", "CLinux"], swiftSettings: strict),
    .target(
      name: "UploadEngine",
      dependencies: [
        "FileModel", "Integrity", "CLinux",
        .product(name: "GRDB", package: "GRDB.swift"),
        .product(name: "Logging", package: "swift-log"),
      ], swiftSettings: strict),
    .target(name: "Telemetry", swiftSettings: strict),
    .target(
      name: "MountStatus", dependencies: ["UploadEngine", "FileModel", "Integrity", "Telemetry"], swiftSettings: strict),
    .target(
      name: "Destinations", dependencies: ["UploadEngine", "FileModel", "Integrity", "ChunkProtocol"],
      swiftSettings: strict),
    .target(name: "CurlTransport", dependencies: ["UploadEngine", "CCurl"], swiftSettings: strict),
    .target(
      name: "MountConfiguration",
      dependencies: ["FileModel", "UploadEngine", "Destinations", .product(name: "Yams", package: "Yams")],
      swiftSettings: strict),
    .target(
      name: "Doctor",
      dependencies: [
        "MountConfiguration", "UploadEngine", "UploadFS", "Destinations", "FileModel", "Integrity", "CurlTransport",
        "CLinux",
      ],
      swiftSettings: strict),
    .executableTarget(
      name: "uploadfs-mount",
      dependencies: [
        "MountConfiguration", "MountStatus", "Telemetry", "FileModel", "UploadFS", "UploadEngine", "Destinations",
        "CurlTransport", "Doctor", "Integrity", "CLinux",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
      ], swiftSettings: strict),

    // The receiver.
    .target(name: "ReceiverCore", dependencies: ["Integrity", "ChunkProtocol"], swiftSettings: strict),
    .target(
      name: "UploadReceiver",
      dependencies: [
        "ReceiverCore", "Integrity", "ChunkProtocol", "CLinux",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "HummingbirdCore", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHTTP2", package: "swift-nio-http2"),
        .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
        .product(name: "NIOHTTPTypesHTTP2", package: "swift-nio-extras"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
        .product(name: "NIOTLS", package: "swift-nio"),
      ], swiftSettings: strict),
    .executableTarget(
      name: "uploadfs-receiver",
      dependencies: [
        "UploadReceiver", "ReceiverCore",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
      ], swiftSettings: strict),

    // Client, network and receiver in one thread under virtual time; in no product.
    .target(
      name: "UploadSimulation",
      dependencies: ["UploadEngine", "Destinations", "ReceiverCore", "ChunkProtocol", "Integrity", "FileModel"],
      swiftSettings: strict),
    .executableTarget(
      name: "uploadfs-simulate", dependencies: ["UploadSimulation", "Destinations"], swiftSettings: strict),

    .testTarget(name: "FileModelTests", dependencies: ["FileModel"], swiftSettings: strict),
    .testTarget(
      name: "MountConfigurationTests",
      dependencies: ["MountConfiguration", "FileModel", "UploadEngine", "Destinations"],
      swiftSettings: strict),
    .testTarget(
      name: "DoctorTests",
      dependencies: ["Doctor", "MountConfiguration", "UploadEngine", "FileModel", "CurlTransport"],
      swiftSettings: strict),
    .testTarget(name: "TelemetryTests", dependencies: ["Telemetry"], swiftSettings: strict),
    .testTarget(
      name: "MountStatusTests", dependencies: ["MountStatus", "Telemetry", "UploadEngine", "FileModel"],
      swiftSettings: strict),
    .testTarget(name: "IntegrityTests", dependencies: ["Integrity"], swiftSettings: strict),
    .testTarget(name: "ChunkProtocolTests", dependencies: ["ChunkProtocol", "Integrity"], swiftSettings: strict),
    .testTarget(name: "UploadFSTests", dependencies: ["UploadFS", "FileModel", "CLinux"], swiftSettings: strict),
    .testTarget(
      name: "UploadEngineTests", dependencies: ["UploadEngine", "FileModel", "Integrity", "CLinux"],
      swiftSettings: strict),
    .testTarget(
      name: "DestinationsTests",
      dependencies: ["Destinations", "UploadEngine", "FileModel", "ChunkProtocol", "Integrity"], swiftSettings: strict),
    .testTarget(name: "CurlTransportTests", dependencies: ["CurlTransport", "UploadEngine"], swiftSettings: strict),
    .testTarget(
      name: "ReceiverCoreTests", dependencies: ["ReceiverCore", "Integrity", "ChunkProtocol"], swiftSettings: strict),
    .testTarget(
      name: "UploadSimulationTests", dependencies: ["UploadSimulation", "Destinations"], swiftSettings: strict),
    .testTarget(
      name: "UploadReceiverTests",
      dependencies: [
        "UploadReceiver", "ReceiverCore", "Integrity", "ChunkProtocol", "UploadFS", "UploadEngine", "Destinations",
        "CurlTransport", "FileModel", .product(name: "Logging", package: "swift-log"),
      ], swiftSettings: strict),
  ]
)

// The sanitizers' build (scripts/sanitize) must not cost minutes for what no sanitized suite needs: the programs are left
// out, with the packages below them, and the server where it is not wanted. Tests that a sanitizer is on come in.
if let sanitized = Context.environment["UPLOADFS_SANITIZED"] {
  var leftOut = [
    "uploadfs-receiver", "UploadSimulationTests", "MountConfiguration", "MountConfigurationTests", "uploadfs-mount",
    "Doctor", "DoctorTests", "UploadSimulation", "uploadfs-simulate",
  ]
  var packagesLeftOut = ["Yams", "swift-argument-parser"]
  if sanitized != "with-server" {
    leftOut += ["UploadReceiver", "UploadReceiverTests"]
    packagesLeftOut += ["swift-http-types", "swift-nio", "hummingbird"]
  }
  package.targets.removeAll { leftOut.contains($0.name) }
  package.products.removeAll { leftOut.contains($0.name) }
  package.dependencies.removeAll { dependency in
    guard case .sourceControl(_, let location, _) = dependency.kind else { return false }
    return packagesLeftOut.contains { location.contains($0) }
  }
  package.targets += [
    .target(name: "CMutexAnnotations", path: "Tests/CMutexAnnotations"),
    .target(name: "CPlantedFaults", path: "Tests/CPlantedFaults"),
    .executableTarget(
      name: "planted-faults", dependencies: ["CPlantedFaults", "CMutexAnnotations"], path: "Tests/PlantedFaults",
      swiftSettings: strict),
    .testTarget(
      name: "SanitizerTests", dependencies: ["CMutexAnnotations", "planted-faults"], swiftSettings: strict),
  ]
}
