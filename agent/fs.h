/* SPDX-License-Identifier: Apache-2.0 - paths of the guest, opened with the rights of its users. */
#ifndef SEALMARK_AGENT_FS_H
#define SEALMARK_AGENT_FS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Paths come from the host and lead through directories that hostile code may change at any time.
 * What bounds them is whose rights they are walked with: between fs_as() and fs_as_root() the
 * kernel treats file accesses as the user's (file system ids; the capabilities that override
 * permissions are off with them). "Magic" links of /proc are never followed, as they lead into the
 * agent itself: a student's link to /proc/self/mem must not read the agent's memory.
 */

/* Take the rights of uid and gid. 0 or negative errno; root's rights are back after fs_as_root. */
int fs_as(uint32_t uid, uint32_t gid);
void fs_as_root(void);

/* From openat2(2); musl's and older headers do not have them. */
#define FS_NO_XDEV       0x01u
#define FS_NO_MAGICLINKS 0x02u
#define FS_NO_SYMLINKS   0x04u
#define FS_BENEATH       0x08u
#define FS_WITHIN        (FS_BENEATH | FS_NO_SYMLINKS | FS_NO_MAGICLINKS | FS_NO_XDEV)

/* openat2 with close-on-exec; fd or negative errno. */
int fs_open(int dir, const char *path, int flags, mode_t mode, uint64_t resolve);

/* Open an absolute path for reading as regular file (S_IFREG) or directory (S_IFDIR): -EISDIR,
 * -ENOTDIR or -EINVAL for others, -EACCES where a link led into /proc. */
int fs_open_read(const char *path, mode_t kind);

/* The directory that holds an absolute path's last name (O_PATH), made with its parents (mode 755)
 * if `make`; the name, never "", "." or "..", is put into name[256]. */
int fs_open_parent(const char *path, int make, char *name);

/* The same below `dir` without following links or leaving it. path must be in normal form. */
int fs_open_parent_within(int dir, const char *path, char *name);

/* Make a directory (O_PATH fd of it, existing is fine) and its parents. */
int fs_make_directory(const char *path);

/* Normal form of a relative path: no empty parts, no "."; -EXDEV for absolute ones and "..",
 * -ENAMETOOLONG. The result may be "". */
int fs_normal_path(const char *path, char *out, size_t size);

/* chmod of an open file, also one opened with O_PATH. */
int fs_chmod(int fd, mode_t mode);

#endif
