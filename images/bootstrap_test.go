package images

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lvslab/lvslab/internal/diag"
	"github.com/lvslab/lvslab/internal/golden"
)

// TestBootstrapFailures holds what people read when a build fails, for outputs
// of mmdebstrap as they were seen.
func TestBootstrapFailures(t *testing.T) {
	outputs := map[string]string{
		"network": "I: running apt-get update...\nErr:1 http://m.example/debian bookworm InRelease\n  Temporary failure resolving 'm.example'\n" +
			"W: Failed to fetch http://m.example/debian/dists/bookworm/InRelease  Temporary failure resolving 'm.example'\n" +
			"E: apt-get update --error-on=any -oAPT::Status-Fd=<$fd> -oDpkg::Use-Pty=false failed\nE: mmdebstrap failed to run\n",
		"package": "I: downloading packages with apt...\nE: Unable to locate package ipvsadmin\nE: apt download failed: E: apt-get failed\n",
		"kernel":  "I: downloading packages with apt...\nE: Unable to locate package linux-image-9.9-cloud-amd64\nE: apt download failed: E: apt-get failed\n",
		"release": "Err:4 http://m.example/debian bookworm-nothing Release\n  404  Not Found\nE: The repository 'http://m.example/debian bookworm-nothing Release' does not have a Release file.\nE: mmdebstrap failed to run\n",
		"keys":    "W: GPG error: http://m.example/debian bookworm InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 0E98404D386FA1D9\nE: The repository 'http://m.example/debian bookworm InRelease' is not signed.\n",
		"disk":    "I: extracting archives...\ntar: ./usr/lib/x: Cannot write: No space left on device\nE: tar --extract failed: 2\n",
		"mixed":   "The following packages have unmet dependencies:\n libgcc-s1 : Depends: gcc-12-base (= 12.2.0-14) but 13.1 is to be installed\nE: Unable to correct problems, you have held broken packages.\n",
		"unknown": strings.Repeat("I: something\n", 20) + "E: surprise\n",
	}
	var b strings.Builder
	for _, name := range []string{"network", "package", "kernel", "release", "keys", "disk", "mixed", "unknown"} {
		err := bootstrapFailure(t.Context(), Recipe{Name: "debian-12"}, outputs[name], errors.New("exit status 25"))
		var f *diag.Failure
		if !errors.As(err, &f) {
			t.Fatalf("%s: %v", name, err)
		}
		b.WriteString("== " + name + "\n" + f.Diagnostic.Summary + "\n" + f.Diagnostic.Detail + "\n-> " + f.Diagnostic.Remedy + "\n\n")
	}
	golden.Check(t, "bootstrap-failures.golden", b.String())
}

func TestCancelledBootstrapIsNoPackageFailure(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := bootstrapFailure(ctx, Recipe{Name: "x"}, "Could not connect", errors.New("signal: killed"))
	var f *diag.Failure
	if !errors.Is(err, context.Canceled) || errors.As(err, &f) {
		t.Errorf("got %v", err)
	}
}

func TestParseArchiveName(t *testing.T) {
	for file, want := range map[string][2]string{
		"bind9_1%3a9.18.49-1~deb12u3_amd64.deb": {"bind9", "1:9.18.49-1~deb12u3"},
		"dns-root-data_2024071801_all.deb":      {"dns-root-data", "2024071801"},
		"lock":                                  {},
		"a_b.deb":                               {},
		"_1_all.deb":                            {},
		"a_1_all.deb.new":                       {},
	} {
		name, version, ok := parseArchiveName(file)
		if name != want[0] || version != want[1] || ok != (want[0] != "") {
			t.Errorf("%s: %q %q %v", file, name, version, ok)
		}
	}
}

func FuzzParseArchiveName(f *testing.F) {
	f.Add("bind9_1%3a9_amd64.deb")
	f.Add("__.deb")
	f.Add("")
	f.Fuzz(func(t *testing.T, file string) {
		name, version, ok := parseArchiveName(file)
		if ok != (name != "" && version != "") || strings.Contains(name, "_") {
			t.Errorf("%q gives %q %q %v", file, name, version, ok)
		}
	})
}

func TestFilterAptConf(t *testing.T) {
	got := filterAptConf("APT \"\";\nAcquire::http::Proxy \"http://proxy:3128\";\nAcquire::IndexTargets::x \"y\";\nacquire::Retries \"3\";\n" +
		"DPkg::Post-Invoke:: \"rm -f x\";\nAcquire::GzipIndexes \"true\";\nAcquire::Check-Valid-Until \"false\";\n")
	want := "Acquire::http::Proxy \"http://proxy:3128\";\nacquire::Retries \"3\";\nAcquire::Check-Valid-Until \"false\";\n" +
		"Dir::Etc::netrc \"/etc/apt/auth.conf\";\nDir::Etc::netrcparts \"/etc/apt/auth.conf.d\";\n"
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestInstalledStatus(t *testing.T) {
	got := installedStatus(Recipe{Arch: "amd64", Without: []string{"perl", "udev"}})
	list := stanzas(got)
	if len(list) != 2 || list[0].get("Package") != "perl" || list[1].get("Status") != "install ok installed" || list[1].get("Multi-Arch") != "allowed" {
		t.Errorf("status is\n%s", got)
	}
}

func TestUnpackedVersions(t *testing.T) {
	dir := t.TempDir()
	if _, err := unpackedVersions(dir); err == nil {
		t.Error("no archive is no error")
	}
	if err := os.WriteFile(filepath.Join(dir, "a_1%3a2_all.deb"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	got, err := unpackedVersions(dir)
	if err != nil || got["a"] != "1:2" {
		t.Errorf("got %v, %v", got, err)
	}
}
