import Integrity
import Promises
import Testing

/// The reference vectors of Certificate Transparency (RFC 6962), as published in github.com/transparency-dev/merkle,
/// testonly/constants.go, and before in github.com/google/certificate-transparency, merkle_tree_test: eight leaves, the
/// root over the first n of them, and the inner nodes that the published audit paths name.
enum CertificateTransparencyVectors {
  static let inputs = [
    "", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f",
  ]
  static let roots = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
  ]
  /// Leaf range and hash of subtrees of the eight leaves.
  static let subtrees: [(leaves: Range<Int>, hash: String)] = [
    (1..<2, "96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7"),
    (2..<4, "5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e"),
    (4..<8, "6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4"),
    (4..<5, "bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b"),
    (6..<8, "ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0"),
    (0..<4, "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7"),
  ]
}

@Suite struct MerkleTreeTests {
  @Test(.promises("P90")) func root_matchesThePublicVectors() throws {
    var tree = MerkleTree()
    #expect(Hex.encode(tree.root) == CertificateTransparencyVectors.roots[0])
    let vectors = CertificateTransparencyVectors.self
    for (input, root) in zip(vectors.inputs, vectors.roots.dropFirst()) {
      tree.append(leafHash: sha256([0x00] + (try #require(Hex.decode(input)))))
      #expect(Hex.encode(tree.root) == root, "\(tree.leafCount) leaves")
    }
    #expect(tree.leafCount == 8)
  }

  @Test(.promises("P90")) func root_equalsTheRecursiveDefinition() {
    let leaves = (0..<70).map { sha256(pattern($0)) }
    var tree = MerkleTree()
    for (position, leaf) in leaves.enumerated() {
      tree.append(leaf)
      #expect(tree.root == recursiveRoot(leaves[...position]), "\(position + 1) leaves")
    }
  }

  @Test func root_dependsOnOrder() {
    var forward = MerkleTree()
    var backward = MerkleTree()
    forward.append(sha256([1]))
    forward.append(sha256([2]))
    backward.append(sha256([2]))
    backward.append(sha256([1]))
    #expect(forward.root != backward.root)
  }

  /// RFC 6962, section 2.1, word for word.
  private func recursiveRoot(_ leaves: ArraySlice<Digest32>) -> Digest32 {
    guard leaves.count > 1 else { return sha256([0x00] + leaves[leaves.startIndex].bytes) }
    var split = 1
    while split * 2 < leaves.count { split *= 2 }
    let middle = leaves.startIndex + split
    return sha256([0x01] + recursiveRoot(leaves[..<middle]).bytes + recursiveRoot(leaves[middle...]).bytes)
  }
}

@Suite struct CommitmentChainTests {
  @Test(.promises("P91")) func tip_followsTheFormula() {
    var chain = CommitmentChain(sessionID: "session-1")
    let start = sha256(Array("uploadfs-commitment-v1session-1".utf8))
    #expect(chain.tip == start)
    let chunk = sha256([7])
    chain.extend(with: chunk)
    #expect(chain.tip == sha256(start.bytes + chunk.bytes))
  }

  @Test(.promises("P91")) func tip_differsBetweenSessionsAndOrders() {
    var first = CommitmentChain(sessionID: "a")
    var second = CommitmentChain(sessionID: "b")
    #expect(first.tip != second.tip)
    second = first
    first.extend(with: sha256([1]))
    first.extend(with: sha256([2]))
    second.extend(with: sha256([2]))
    second.extend(with: sha256([1]))
    #expect(first.tip != second.tip)
  }
}

@Suite struct ChunkMACTests {
  private let nonce = Array(0..<32) as [UInt8]
  private let digest = sha256([])

  @Test(.promises("P87", "P88")) func tag_followsTheFormula() {
    let master = ChunkMAC.masterKey(credentialSecret: Array("token".utf8))
    #expect(
      master
        == HKDFSHA256.derive(
          inputKey: Array("token".utf8), salt: [], info: Array("uploadfs master key v1".utf8), byteCount: 32))
    let key = ChunkMAC.sessionKey(masterKey: master, nonce: nonce, sessionID: "s1")
    #expect(
      key
        == HKDFSHA256.derive(
          inputKey: master, salt: nonce, info: Array("uploadfs chunk hmac v1s1".utf8), byteCount: 32))
    let mac = ChunkMAC.mac(
      key: key, index: 0x0102_0304, sizeBytes: 0x0506, chunkSHA256: digest, sessionID: "s1", nonce: nonce)
    var message: [UInt8] = [4, 3, 2, 1, 6, 5, 0, 0, 0, 0, 0, 0]
    message += Array("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855s1".utf8) + nonce
    #expect(mac == HMACSHA256.authenticate(message, key: key))
  }

  /// Computed with Python's hmac and hashlib from docs/protocol.md.
  @Test(.promises("P88")) func tag_matchesTheDocumentsExample() {
    let master = ChunkMAC.masterKey(credentialSecret: Array("example-token".utf8))
    let key = ChunkMAC.sessionKey(masterKey: master, nonce: nonce, sessionID: "0123456789abcdef")
    let mac = ChunkMAC.mac(
      key: key, index: 7, sizeBytes: 3, chunkSHA256: sha256(Array("abc".utf8)), sessionID: "0123456789abcdef",
      nonce: nonce)
    #expect(Hex.encode(master) == "39acbd35e0824dec4c33652e81455d0e6237153fc602573f8dec94e7ea4053c8")
    #expect(Hex.encode(key) == "6f2575bdfa396171c81e18255a31553751b83eaee127bc2c48e760d102b93e31")
    #expect(Hex.encode(mac) == "690f364446be8dce993c38240cccb856a481f3daa0b566880bff7e31de5a52f7")
  }

  @Test(.promises("P88")) func tag_isBoundToEveryInput() {
    func mac(
      key: UInt8 = 1, index: UInt32 = 0, size: UInt64 = 9, digest: Digest32 = sha256([]), session: String = "s",
      nonce: UInt8 = 0
    ) -> [UInt8] {
      ChunkMAC.mac(
        key: [UInt8](repeating: key, count: 32), index: index, sizeBytes: size, chunkSHA256: digest,
        sessionID: session, nonce: [UInt8](repeating: nonce, count: 32))
    }
    let macs = [
      mac(), mac(key: 2), mac(index: 1), mac(size: 8), mac(digest: sha256([1])), mac(session: "t"), mac(nonce: 1),
    ]
    #expect(Set(macs).count == macs.count)
  }
}
