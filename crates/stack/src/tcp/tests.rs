//! Traces of the papers and of the rules.
