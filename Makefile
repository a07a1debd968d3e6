# Three commands, each complete on a fresh Debian 12 machine. Cargo does the rest.

# rustup puts cargo here, and a fresh installation is not in PATH yet.
export PATH := $(PATH):$(HOME)/.cargo/bin

target := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help demo test bench setup

help:
	@echo 'make demo    see a stalled call: recorded, explained, fixed, recorded again'
	@echo 'make test    every check and test; those that need root run when they can'
	@echo 'make bench   benchmarks: what recording costs, how fast traces are read'
	@echo 'make setup   install what these need (scripts/setup --check: only say it)'

demo: setup
	cargo build --quiet --release --package sockscope-cli
	scripts/with-rights $(target)/release/sockscope demo

# A whole run compiles each crate once and reuses nothing, so the data for incremental builds only cost time.
test: export CARGO_INCREMENTAL ?= 0
# Line numbers in backtraces take a sixth of the time of the build. A panic says its own line without them.
test: export CARGO_PROFILE_DEV_DEBUG ?= none
test: setup
	cargo xtask ci

bench: setup
	scripts/bench

setup:
	@scripts/setup
