//! Scripts in the manner of packetdrill: see [`Script`].
