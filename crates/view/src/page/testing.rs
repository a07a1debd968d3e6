//! Traces for tests.
