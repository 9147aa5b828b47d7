import TransferModel

/// How a body travels, in the engine's words. The protocol has a type of the same name for its own words, and the engine's
/// module cannot be named, because its main class has the module's name.
typealias BodyEncoding = ChunkEncoding
