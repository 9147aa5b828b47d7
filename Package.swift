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

/// Tests are not optimised in the optimised build, which takes half of its time otherwise; what they test is.
let tests = strict + [.unsafeFlags(["-Onone"], .when(configuration: .release))]

/// The commit, where a script that builds says it: what SwiftPM itself knows of git it keeps from one commit to the next.
let buildInformation: [CSetting] =
  Context.environment["UPLOADFS_COMMIT"].map { [.define("UPLOADFS_COMMIT", to: $0)] } ?? []

let deque = Target.Dependency.product(name: "DequeModule", package: "swift-collections")
let heap = Target.Dependency.product(name: "HeapModule", package: "swift-collections")
let orderedCollections = Target.Dependency.product(name: "OrderedCollections", package: "swift-collections")

let package = Package(
  name: "uploadfs",
  products: [
    .executable(name: "uploadfs-mount", targets: ["uploadfs-mount"]),
    .executable(name: "uploadfs-receiver", targets: ["uploadfs-receiver"]),
  ],
  dependencies: [
    .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.0"),
    .package(url: "https://github.com/apple/swift-collections", from: "1.6.0"),
    .package(url: "https://github.com/apple/swift-http-structured-headers", from: "1.7.0"),
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
    .systemLibrary(name: "CZSTDSystem", pkgConfig: "libzstd", providers: [.apt(["libzstd-dev"])]),
    .target(name: "CFuse", dependencies: ["CFuse3System"]),
    .target(name: "CCurl", dependencies: ["CCurlSystem", "COpenSSLSystem"]),
    .target(name: "COpenSSL", dependencies: ["COpenSSLSystem"]),
    .target(name: "CISAL", dependencies: ["CISALSystem"]),
    .target(name: "CLZ4", dependencies: ["CLZ4System"]),
    .target(name: "CZSTD", dependencies: ["CZSTDSystem"]),
    .target(name: "CSHA256"),
    .target(name: "CLinux"),
    .target(name: "CBuildInformation", cSettings: buildInformation),

    // Values that the layers share, and what client and receiver must agree on.
    .target(name: "FileModel", swiftSettings: strict),
    .target(name: "Threads", dependencies: ["CLinux"], swiftSettings: strict),
    .target(name: "Quantities", swiftSettings: strict),
    .target(name: "ProgramVersion", dependencies: ["CBuildInformation"], swiftSettings: strict),
    .target(name: "Lookup", dependencies: [orderedCollections], swiftSettings: strict),
    .target(name: "Integrity", dependencies: ["COpenSSL", "CISAL", "CLZ4", "CZSTD", "CSHA256"], swiftSettings: strict),
    .target(name: "ChunkProtocol", dependencies: ["Integrity"], swiftSettings: strict),
    .target(name: "SystemMemory", swiftSettings: strict),
    .target(
      name: "LogText", dependencies: ["Threads", .product(name: "Logging", package: "swift-log")], swiftSettings: strict
    ),

    // The client.
    .target(
      name: "TransferModel", dependencies: ["FileModel", "Integrity", "Lookup", "LogText"], swiftSettings: strict),
    .target(name: "UploadFS", dependencies: ["FileModel", "Threads", "CFuse", "CLinux"], swiftSettings: strict),
    .target(
      name: "UploadEngine",
      dependencies: [
        "TransferModel", "FileModel", "Integrity", "Lookup", "LogText", "Quantities", "Threads", "SystemMemory",
        "CLinux",
        deque, orderedCollections,
        .product(name: "GRDB", package: "GRDB.swift"),
        .product(name: "Logging", package: "swift-log"),
      ], swiftSettings: strict),
    .target(name: "Telemetry", dependencies: ["CLinux"], swiftSettings: strict),
    .target(
      name: "MountStatus", dependencies: ["UploadEngine", "FileModel", "Integrity", "Quantities", "Telemetry"],
      swiftSettings: strict),
    .target(
      name: "Destinations",
      dependencies: [
        "TransferModel", "FileModel", "Integrity", "Lookup", "ChunkProtocol", "Quantities",
        orderedCollections,
        .product(name: "RawStructuredFieldValues", package: "swift-http-structured-headers"),
      ], swiftSettings: strict),
    .target(
      name: "CurlTransport", dependencies: ["TransferModel", "Integrity", "Quantities", "Threads", "CCurl"],
      swiftSettings: strict),
    .target(
      name: "MountConfiguration",
      dependencies: [
        "TransferModel", "FileModel", "Quantities", "Threads", "UploadEngine", "Destinations",
        .product(name: "Yams", package: "Yams"),
      ],
      swiftSettings: strict),
    .target(
      name: "Doctor",
      dependencies: [
        "MountConfiguration", "TransferModel", "UploadEngine", "UploadFS", "Destinations", "FileModel", "Integrity",
        "Lookup", "CurlTransport", "Quantities", "SystemMemory", "CLinux",
      ],
      swiftSettings: strict),
    .executableTarget(
      name: "uploadfs-mount",
      dependencies: [
        "MountConfiguration", "MountStatus", "Telemetry", "TransferModel", "FileModel", "Quantities", "UploadFS",
        "UploadEngine", "Destinations", "CurlTransport", "Doctor", "Integrity", "LogText", "Lookup", "Threads",
        "SystemMemory", "ProgramVersion",
        "CLinux",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
      ], swiftSettings: strict),

    // The receiver.
    .target(
      name: "ReceiverCore",
      dependencies: ["Integrity", "Lookup", "ChunkProtocol", "Quantities", deque, orderedCollections],
      swiftSettings: strict),
    .target(
      name: "UploadReceiver",
      dependencies: [
        "ReceiverCore", "Integrity", "Lookup", "ChunkProtocol", "Quantities", "CLinux",
        .product(name: "HTTPTypes", package: "swift-http-types"),
        .product(name: "HummingbirdCore", package: "hummingbird"),
        .product(name: "Logging", package: "swift-log"),
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOHTTP1", package: "swift-nio"),
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
        "UploadReceiver", "ReceiverCore", "Integrity", "LogText", "Quantities", "Threads", "SystemMemory",
        "ProgramVersion",
        "CLinux",
        .product(name: "ArgumentParser", package: "swift-argument-parser"),
        .product(name: "Logging", package: "swift-log"),
      ], swiftSettings: strict),

    // Client, network and receiver in one thread under virtual time; in no product.
    .target(
      name: "UploadSimulation",
      dependencies: [
        "TransferModel", "UploadEngine", "Destinations", "ReceiverCore", "ChunkProtocol", "Integrity", "FileModel",
        "Lookup",
        heap, orderedCollections,
      ],
      swiftSettings: strict),
    .executableTarget(
      name: "uploadfs-simulate", dependencies: ["UploadSimulation", "Destinations", "Integrity", "ProgramVersion"],
      swiftSettings: strict),

    // Ties tests to the promises of the documents; in no product.
    .target(name: "Promises", path: "Tests/Promises", swiftSettings: strict),
    .testTarget(name: "PromisesTests", dependencies: ["Promises"], swiftSettings: tests),

    // Numbers of a seed, for tests; in no product.
    .target(name: "SeededRandom", path: "Tests/SeededRandom", swiftSettings: strict),

    // The computations of docs/protocol.md without the product's code; in no product.
    .target(name: "ProtocolReference", path: "Tests/ProtocolReference", swiftSettings: strict),

    .testTarget(
      name: "LogTextTests",
      dependencies: ["Promises", "LogText", "Threads", .product(name: "Logging", package: "swift-log")],
      swiftSettings: tests),
    .testTarget(name: "ThreadsTests", dependencies: ["Threads"], swiftSettings: tests),
    .testTarget(name: "FileModelTests", dependencies: ["Promises", "SeededRandom", "FileModel"], swiftSettings: tests),
    .testTarget(
      name: "MountConfigurationTests",
      dependencies: ["Promises", "MountConfiguration", "TransferModel", "FileModel", "Threads", "Destinations"],
      swiftSettings: tests),
    .testTarget(
      name: "DoctorTests",
      dependencies: [
        "Doctor", "MountConfiguration", "TransferModel", "UploadFS", "FileModel", "Lookup", "CurlTransport",
      ],
      swiftSettings: tests),
    .testTarget(name: "TelemetryTests", dependencies: ["Telemetry"], swiftSettings: tests),
    .testTarget(
      name: "MountStatusTests",
      dependencies: ["Promises", "MountStatus", "Quantities", "Telemetry", "UploadEngine", "FileModel"],
      swiftSettings: tests),
    .testTarget(name: "LookupTests", dependencies: ["Lookup", orderedCollections], swiftSettings: tests),
    .testTarget(
      name: "IntegrityTests", dependencies: ["Promises", "SeededRandom", "ProtocolReference", "Integrity"],
      swiftSettings: tests),
    .testTarget(
      name: "ChunkProtocolTests", dependencies: ["Promises", "SeededRandom", "ChunkProtocol", "Integrity"],
      swiftSettings: tests),
    .testTarget(
      name: "UploadFSTests",
      dependencies: ["Promises", "SeededRandom", "UploadFS", "FileModel", "FilesystemFixtures", "CLinux"],
      swiftSettings: tests),

    // The mount against a plain directory; the calls are made by processes of their own.
    .target(
      name: "FilesystemFixtures", dependencies: ["FileModel"], path: "Tests/FilesystemFixtures", swiftSettings: strict),
    .target(name: "CFilesystemCalls", path: "Tests/CFilesystemCalls"),
    .target(
      name: "FilesystemCalls", dependencies: ["CFilesystemCalls"], path: "Tests/FilesystemCalls", swiftSettings: strict),
    .executableTarget(
      name: "FilesystemActor", dependencies: ["FilesystemCalls", "CFilesystemCalls"], path: "Tests/FilesystemActor",
      swiftSettings: strict),
    .testTarget(
      name: "FSBehaviourTests",
      dependencies: [
        "Promises", "UploadFS", "FileModel", "FilesystemFixtures", "FilesystemCalls", "CFilesystemCalls",
        "FilesystemActor", "CLinux",
      ], swiftSettings: tests),

    .testTarget(
      name: "UploadEngineTests",
      dependencies: [
        "Promises", "SeededRandom", "ProtocolReference", "TransferModel", "UploadEngine", "FileModel", "Integrity",
        "Lookup", "LogText", "Quantities", "Threads", "SystemMemory", "CLinux", orderedCollections,
        .product(name: "GRDB", package: "GRDB.swift"), .product(name: "Logging", package: "swift-log"),
      ],
      swiftSettings: tests),
    .testTarget(
      name: "DestinationsTests",
      dependencies: [
        "Promises", "SeededRandom", "ProtocolReference", "Destinations", "TransferModel", "FileModel", "ChunkProtocol",
        "Integrity", "Lookup", "Quantities",
        .product(name: "RawStructuredFieldValues", package: "swift-http-structured-headers"),
      ], swiftSettings: tests),
    .testTarget(
      name: "CurlTransportTests", dependencies: ["Promises", "CurlTransport", "CCurl", "TransferModel"],
      swiftSettings: tests),
    .testTarget(
      name: "ReceiverCoreTests",
      dependencies: [
        "Promises", "SeededRandom", "ProtocolReference", "ReceiverCore", "Integrity", "ChunkProtocol", "Lookup",
      ],
      swiftSettings: tests),
    .testTarget(
      name: "UploadSimulationTests",
      dependencies: [
        "UploadSimulation", "ReceiverCore", "ChunkProtocol", "Integrity", "TransferModel", "FileModel",
        "uploadfs-simulate",
      ],
      swiftSettings: tests),
    .testTarget(
      name: "UploadReceiverTests",
      dependencies: [
        "Promises", "SeededRandom", "UploadReceiver", "ReceiverCore", "Integrity", "Lookup", "ChunkProtocol",
        "UploadFS", "TransferModel", "UploadEngine", "Destinations", "CurlTransport", "FileModel", "CLinux",
        .product(name: "Logging", package: "swift-log"), .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ], swiftSettings: tests),
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
      name: "SanitizerTests", dependencies: ["CMutexAnnotations", "planted-faults"], swiftSettings: tests),
  ]
}

// The filesystem and its tests alone: they need no package, and are built within a minute.
if Context.environment["UPLOADFS_PART"] == "filesystem" {
  let part: Set = [
    "CFuse3System", "CFuse", "CLinux", "Threads", "ThreadsTests", "FileModel", "UploadFS", "FileModelTests",
    "UploadFSTests", "FilesystemFixtures",
    "CFilesystemCalls", "FilesystemCalls", "FilesystemActor", "FSBehaviourTests", "Promises", "PromisesTests",
    "SeededRandom",
  ]
  package.targets.removeAll { !part.contains($0.name) }
  package.products = []
  package.dependencies = []
}

// The fuzzers' build (scripts/fuzz): the targets that parse what others wrote, each with the address sanitizer and with
// counters for libFuzzer, and one program for each group of parsers. Packages are built without either.
if Context.environment["UPLOADFS_FUZZED"] != nil {
  let programs: [Target] = [
    .target(name: "CFuzzing", path: "Tests/Fuzzing/CFuzzing"),
    .target(name: "Fuzzing", dependencies: ["CFuzzing"], path: "Tests/Fuzzing/Fuzzing", swiftSettings: strict),
    .executableTarget(
      name: "fuzz-receiver", dependencies: ["Fuzzing", "ChunkProtocol", "ReceiverCore", "Integrity"],
      path: "Tests/Fuzzing/Receiver", swiftSettings: strict),
    .executableTarget(
      name: "fuzz-client",
      dependencies: [
        "Fuzzing", "ChunkProtocol", "CurlTransport", "Destinations", "FileModel", "Integrity", "Lookup", "Quantities",
        "TransferModel",
        .product(name: "RawStructuredFieldValues", package: "swift-http-structured-headers"),
      ], path: "Tests/Fuzzing/Client", swiftSettings: strict),
    .executableTarget(
      name: "fuzz-disk",
      dependencies: [
        "Fuzzing", "ChunkProtocol", "Destinations", "FileModel", "Integrity", "ReceiverCore", "TransferModel",
        "UploadEngine", "UploadFS",
        .product(name: "GRDB", package: "GRDB.swift"),
      ], path: "Tests/Fuzzing/Disk", swiftSettings: strict),
  ]
  // What the programs need, and nothing else: followed through the targets, so that a new one is not forgotten here.
  var needed: Set<String> = []
  var packages: Set<String> = []
  var visited = programs
  while let target = visited.popLast() {
    guard needed.insert(target.name).inserted else { continue }
    for dependency in target.dependencies {
      switch dependency {
      case .targetItem(let name, _), .byNameItem(let name, _):
        visited += package.targets.filter { $0.name == name }
      case .productItem(_, let package, _, _):
        if let package { packages.insert(package) }
      @unknown default: break
      }
    }
  }
  package.targets.removeAll { !needed.contains($0.name) }
  package.products.removeAll()
  package.dependencies.removeAll { dependency in
    guard case .sourceControl(_, let location, _) = dependency.kind else { return false }
    return !packages.contains { location.contains($0) }
  }
  package.targets += programs
  for target in package.targets where target.type == .regular || target.type == .executable {
    target.cSettings = [.unsafeFlags(["-fsanitize=address,fuzzer-no-link", "-gline-tables-only", "-O2"])]
    // A debug build whose parsers are optimised: packages, and what is large and parses little, would take minutes.
    let isOptimised = !["UploadEngine", "UploadFS"].contains(target.name)
    target.swiftSettings? += [
      .unsafeFlags(
        ["-sanitize=address,fuzzer"] + (isOptimised ? ["-O", "-whole-module-optimization", "-num-threads", "2"] : []))
    ]
    guard target.type == .executable else { continue }
    target.swiftSettings? += [.unsafeFlags(["-parse-as-library"])]
    // SwiftPM's executables bring a main of their own, and so does libFuzzer's archive: the first one counts.
    target.linkerSettings = [
      .unsafeFlags(["-sanitize=address,fuzzer", "-use-ld=lld", "-Xlinker", "-z", "-Xlinker", "muldefs"])
    ]
  }
}
