# lvslab: build, demonstrate, test. Every target works from a clean clone on a
# fresh Debian 12 with git, make and Go, as root.

GO      ?= go
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/lvslab/lvslab/internal/version.Version=$(VERSION)
AGENT   := internal/agent/binary/lvslab-agent

# What the host needs. libvirt-daemon-system is left out on purpose: it would
# start a libvirtd of its own, and lvslab brings up a private one.
PACKAGES := qemu-system-x86 libvirt-daemon libvirt-daemon-driver-qemu \
            mmdebstrap squashfs-tools kmod cpio zstd xz-utils iproute2 seabios

# What only the tests need: a C compiler for the race detector, BIND's own word
# on the zones that lvslab writes, what a libvirtd that is not lvslab's sets its
# firewall rules with, OpenSSH's client for the configuration written for it, and
# QEMU's own word on disk images.
TEST_PACKAGES := gcc libc6-dev bind9-utils iptables openssh-client qemu-utils
# and what only the long ones do: the other machine that a lab is made on, what a
# kernel module is built with, and a disk with a distribution and its boot loader.
LONG_PACKAGES := openssh-server linux-headers-cloud-amd64 e2fsprogs grub-common grub-pc-bin

.PHONY: all setup setup-test setup-long build agent demo test test-unit test-acc test-long soak fuzz bench lint clean

all: build

setup: ## install the host packages that are missing
	@$(call install,$(PACKAGES))

setup-test: setup ## the same for the tests
	@$(call install,$(TEST_PACKAGES))

setup-long: setup-test ## the same for the long tests
	@$(call install,$(LONG_PACKAGES))

# gotest ARGUMENTS: go test, which ends with the tests that took longest.
GOTESTSUM := gotest.tools/gotestsum@v1.13.0
define gotest
	@log=$$(mktemp); trap 'rm -f '$$log EXIT; echo "go test $(1)"; \
	$(GO) run $(GOTESTSUM) --format pkgname --format-hide-empty-pkg --hide-summary=skipped --jsonfile $$log -- $(1); rc=$$?; \
	echo "the slowest:"; $(GO) run $(GOTESTSUM) tool slowest --threshold 1s --num $(SLOWEST) --jsonfile $$log; exit $$rc
endef
SLOWEST ?= 15

# install PACKAGES: those that are not there, and says so.
define install
missing=; for p in $(1); do \
	  dpkg-query -W -f '$${Status}' $$p 2>/dev/null | grep -q 'ok installed' || missing="$$missing $$p"; done; \
	if [ -n "$$missing" ]; then echo "setup: installing$$missing"; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing >/dev/null; fi
endef

build: agent ## bin/lvslab, with the agent inside
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/lvslab ./cmd/lvslab

agent: ## the static binary that runs inside every guest
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(AGENT) ./cmd/lvslab-agent

demo: setup build ## the paper's study on real virtual machines
	bin/lvslab apply --fresh topologies/lvs-tun-dns.hcl

lint: ## formatting, vet
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...

test: lint test-unit test-acc ## everything that CI runs

test-unit: agent setup-test ## pure tests, with the race detector; then every crash point and history, without it
	$(call gotest,-race ./...)
	$(GO) test -count=1 -run '^Test(Every|Any)' -v ./plan/state

# One package at a time: the labs of two packages would fight for two cores.
test-acc: export LVSLAB_ACC=1
test-acc: setup-test build ## tests that boot real virtual machines under emulation
	$(call gotest,-count=1 -p 1 -timeout 60m -run '^TestAcc' ./...)

# The long suite: every topology of the library and what else takes minutes.
test-long: setup-long build ## the tests that boot virtual machines for minutes
	LVSLAB_ACC=1 LVSLAB_LONG=1 $(GO) test -v -count=1 -p 1 -timeout 120m -run '^TestAccLong' ./...

# SOAK kills at random moments, beside the seven of the study. LVSLAB_SEED=N
# repeats the moments of an earlier run, which has printed it.
SOAK ?= 20

soak: setup-test build ## kill and interrupt lvslab again and again; nothing may be left
	LVSLAB_ACC=1 LVSLAB_SOAK=$(SOAK) $(GO) test -v -count=1 -timeout 60m -run '^TestAcc(Kills|SignalSoak)$$' ./internal/acceptance

# FUZZ random cases for the model and a kernel; LVSLAB_SEED=N makes others.
FUZZ ?= 500

fuzz: setup build ## random events, once through the model of IPVS and once through a kernel
	bin/lvslab conformance --fuzz $(FUZZ) --seed $(or $(LVSLAB_SEED),1)

bench: setup build ## ratios in one run, printed as a table
	$(GO) test -count=1 -run '^$$' -bench Plan -benchtime 1x ./plan
	$(GO) test -count=1 -run '^$$' -bench 'Packets|Churn' -benchtime 0.5s ./internal/ipvsmodel
	$(GO) test -count=1 -run '^$$' -bench Growth -benchtime 0.2s ./internal/ipvsmodel
	$(GO) test -count=1 -run '^$$' -bench Demo -benchtime 0.5s ./internal/predict
	LVSLAB_ACC=1 $(GO) test -count=1 -p 1 -timeout 30m -run '^$$' -bench . -benchtime 1x ./internal/acceptance/...

clean:
	rm -rf bin $(AGENT)
