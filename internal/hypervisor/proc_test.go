package hypervisor

import (
	"os"
	"os/exec"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	const rest = " 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"
	for name, c := range map[string]struct {
		text  string
		want  procStat
		fails bool
	}{
		"plain":                 {"7 (sh) S" + rest + " 2 0 12345 99 0", procStat{'S', 2, 12345}, false},
		"name with parentheses": {"7 (a) R (b c) Z" + rest + " 1 0 18446744073709551615 9", procStat{'Z', 1, 1<<64 - 1}, false},
		"too short":             {"7 (sh) S 1 2 3", procStat{}, true},
		"no name":               {"7 sh S" + rest + " 2 0 12345", procStat{}, true},
		"no number":             {"7 (sh) S" + rest + " 2 0 soon", procStat{}, true},
		"empty":                 {"", procStat{}, true},
	} {
		got, err := parseStat([]byte(c.text))
		if (err != nil) != c.fails || got != c.want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, c.want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	if own, err := os.ReadFile("/proc/self/stat"); err == nil {
		f.Add(own)
	}
	f.Add([]byte("7 (a) R (b c) Z 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 1 0 3 9"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, text []byte) {
		st, err := parseStat(text)
		if err != nil && st != (procStat{}) {
			t.Errorf("error with a value: %+v", st)
		}
	})
}

// A zombie leader whose other threads live has not ended: it would be taken
// for the end of a holder whose namespace is still full of processes.
func TestEnded(t *testing.T) {
	for _, c := range []struct {
		st   procStat
		want bool
	}{
		{procStat{'S', 5, 1}, false}, {procStat{'R', 1, 1}, false},
		{procStat{'Z', 3, 1}, false}, {procStat{'Z', 1, 1}, true},
		{procStat{'Z', 0, 1}, true}, {procStat{'X', 1, 1}, true},
	} {
		if got := c.st.ended(); got != c.want {
			t.Errorf("%+v: ended %v", c.st, got)
		}
	}
}

func TestAlive(t *testing.T) {
	boot, err := BootID()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	pid := cmd.Process.Pid
	st, err := readStat(pid)
	if err != nil {
		t.Fatal(err)
	}
	expect := func(name string, start uint64, boot string, want bool) {
		t.Helper()
		if got, err := alive(pid, start, boot); err != nil || got != want {
			t.Errorf("%s: alive %v, %v; want %v", name, got, err, want)
		}
	}
	expect("running", st.startTime, boot, true)
	expect("another process with the number", st.startTime+1, boot, false)
	expect("before a reboot", st.startTime, "00000000-0000-0000-0000-000000000000", false)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for limit := time.Now().Add(5 * time.Second); ; {
		if st, err := readStat(pid); err == nil && st.ended() {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("no zombie")
		}
		time.Sleep(time.Millisecond)
	}
	expect("zombie", st.startTime, boot, false)
	_ = cmd.Wait()
	expect("reaped", st.startTime, boot, false)
}
