# SPDX-License-Identifier: Apache-2.0
# Short names for the few commands that matter; CMakePresets.json holds the settings behind them.
JOBS ?= $(shell nproc)
build = cmake --preset $(1) && cmake --build --preset $(1) --parallel $(JOBS)

.PHONY: help demo test asan tsan fuzz format clean
help:
	@echo "make demo    train a small GPT under ZeRO stage 3 with offload: loss, speed and where each byte is"
	@echo "make test    build everything and run all tests and checks"
	@echo "make asan    the CPU tests under the address and undefined-behaviour sanitizers"
	@echo "make tsan    the CPU tests under the thread sanitizer"
	@echo "make fuzz    the fuzz targets, 60 seconds each"
	@echo "make format  lay out all sources with clang-format"
	@echo "make clean   remove what was built (.venv stays)"
	@echo "JOBS=n limits parallel compilers; default: all $(JOBS) cores"

demo:
	scripts/bootstrap
	$(call build,release) --target gpt zero_launch
	scripts/demo

test:
	scripts/bootstrap
	$(call build,release)
	scripts/run_tests build/release

asan tsan:
	scripts/bootstrap
	$(call build,$@)
	scripts/run_tests build/$@

fuzz:
	scripts/bootstrap fuzz
	$(call build,fuzz)
	scripts/fuzz build/fuzz

format:
	scripts/check_format --fix

clean:
	rm -rf build demo-output
