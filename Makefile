# SPDX-License-Identifier: Apache-2.0
# Thin: meson and the scripts know how; this names what there is to do. `make help` lists it.
MESON  ?= /usr/bin/meson
NINJA  ?= ninja
BUILD  ?= build
PREFIX ?= /usr/local

# the distribution's Python runs meson and the tests, whatever else PATH holds first
export PATH := /usr/bin:/bin:/usr/sbin:/sbin:$(PATH)

.PHONY: all help web demo check bench install deb clean

all: $(BUILD)/build.ninja
	$(NINJA) -C $(BUILD)

$(BUILD)/build.ninja:
	$(MESON) setup --prefix=$(PREFIX) $(BUILD)

help:
	@echo 'make            build into $(BUILD)/'
	@echo 'make web        build the console for the browser (needs npm), which serve then shows'
	@echo 'make demo       install what is needed (as root), build, set up, grade the example class'
	@echo 'make check      everything that can be checked: style, unit, scenario, vm, hostile, fuzz'
	@echo 'make bench      the benches of SPECIFICATION.md'
	@echo 'make install    install under PREFIX (default /usr/local), below DESTDIR if set'
	@echo 'make deb        a Debian package with the console (needs npm), in build/deb/'
	@echo 'make clean      remove the build folders; what setup made stays in $$SEALMARK_HOME'

web:
	scripts/web

demo:
	scripts/demo $(BUILD)

check:
	scripts/check

bench: all
	$(NINJA) -C $(BUILD) tests/bench/bench_sandbox
	guest/setup.sh
	SEALMARK_BUILD=$(abspath $(BUILD)) /usr/bin/python3 tests/bench/bench.py

install: all
	$(MESON) configure --prefix=$(PREFIX) $(BUILD)
	$(MESON) install -C $(BUILD) $(if $(DESTDIR),--destdir $(DESTDIR))

# the console first: debhelper hides the settings of npm, which lie in HOME
deb:
	dpkg-checkbuilddeps
	scripts/web
	debian/rules binary

clean:
	rm -rf $(BUILD) build-asan build-fuzz
