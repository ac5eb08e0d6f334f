// Package images builds what a lab's virtual machines boot: a kernel, an
// initramfs and a compressed read-only root, made from the package sources of
// the machine by a [Recipe] and kept in a content-addressed cache.
//
// [Build] asks the cache first, without network; when there is nothing, it
// lets mmdebstrap resolve, download and unpack the packages, keeps of them
// what runs, and writes the three files. Nothing depends on the machine that
// builds or on the time of day, so the same recipe and package versions give
// the same bytes everywhere ([Image.Digest] proves it).
//
// The guest agent is not in the image: [InitrdWithAgent] appends it as a
// second cpio archive, so that a new build of lvslab leaves root images alone.
// README.md in this directory shows the files of a guest and how it boots.
package images
