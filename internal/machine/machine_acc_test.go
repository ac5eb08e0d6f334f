package machine

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lvslab/lvslab/images"
	"github.com/lvslab/lvslab/internal/agent/client"
	"github.com/lvslab/lvslab/internal/vmtest"
)

// TestAccMachineFails: a guest that cannot boot says why, and an interrupted
// boot ends at once. Both wait for the end of QEMU.
func TestAccMachineFails(t *testing.T) {
	vmtest.Need(t)
	missing := filepath.Join(t.TempDir(), "vmlinuz")
	_, err := Start(t.Context(), Spec{Node: "x", Image: images.Image{Kernel: missing, Root: missing}, Initrd: missing, Accelerator: "tcg"})
	var boot *client.BootError
	if !errors.As(err, &boot) || boot.Reason != "QEMU ended" || !strings.Contains(strings.Join(boot.Lines, "\n"), missing) {
		t.Errorf("%v", err)
	}
	cache, err := images.DefaultCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	img, err := images.Build(t.Context(), images.Debian12, images.Options{CacheDir: cache})
	if err != nil {
		t.Fatal(err)
	}
	// Without the agent nothing ever answers.
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := Start(ctx, Spec{Node: "x", Image: img, Initrd: img.Initrd, Accelerator: "tcg"}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
}
