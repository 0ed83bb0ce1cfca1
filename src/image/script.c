/* SPDX-License-Identifier: Apache-2.0 - a plan as scripts for the machine that builds. */
#include "image/plan.h"

#include "base/buffer.h"
#include "base/text.h"

#include <errno.h>
#include <string.h>

/*
 * Theory of operation
 *
 * The driver is the one program of a build machine. Its root is the base image as any sandbox has
 * it; beside that it mounts the image's own file system again below an overlay of its own, and runs
 * each step's script with that for root. So nothing that belongs to the machine (the sandbox's
 * resolv.conf, certificates, what is uploaded) is ever in the result. At the end it packs the
 * overlay and writes it to descriptor 3. All that the host does is to take those bytes.
 *
 * Words from recipes and Dockerfiles stand in the scripts as single-quoted text only.
 *
 *	/.build/env		variables of the base and of the build, sourced first
 *	/.build/steps/NNN	one script for each step; NNN.title what the log says
 *	/.build/files/N		contents of FILE steps
 *	/.build/context[.tar]	the context of COPY
 *	/.build/mnt		the memory that is the new root's disk, and the packed image
 */
#define EPOCH_TEXT "1700000000" /* of the files of installed images, see guest/setup.sh */

/* clang-format off */
const char image_driver[] =
	"set -eu\n"
	"export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
	"export HOME=/root USER=root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive\n"
	"B=/.build R=/.build/mnt/root\n"
	"cd /\n"
	"disk_mib=$BUILD_DISK_MIB\n"
	"unset BUILD_DISK_MIB\n"
	"command -v mkfs.erofs >/dev/null || {\n"
	"	echo 'the base image has no mkfs.erofs (package erofs-utils): build from one that has' >&2\n"
	"	exit 11\n"
	"}\n"
	"mkdir -p $B/mnt $B/image $B/context\n"
	"mount -t tmpfs -o \"mode=755,size=${disk_mib}m,nr_inodes=2m\" build $B/mnt\n"
	"for disk in ubda vda; do\n"
	"	[ ! -r /sys/class/block/$disk/dev ] || break\n"
	"done\n"
	"mknod -m 600 /dev/base b $(tr : ' ' </sys/class/block/$disk/dev)\n"
	"mount -t erofs -o ro,nodev /dev/base $B/image\n"
	"rm /dev/base\n"
	"mkdir $B/mnt/upper $B/mnt/work $R\n"
	"chmod 755 $B/mnt/upper\n"
	"mount -t overlay -o lowerdir=$B/image,upperdir=$B/mnt/upper,workdir=$B/mnt/work build $R\n"
	"mkdir -p $R/.build $R/dev $R/proc $R/sys $R/run $R/tmp\n"
	"mount --rbind /dev $R/dev\n"
	"mount --rbind /sys $R/sys\n"
	"mount -t proc proc $R/proc\n"
	"mount -t tmpfs -o mode=755 run $R/run\n"
	"mount -t tmpfs -o mode=1777 tmp $R/tmp\n"
	"mount --bind $B $R/.build\n"
	"for file in etc/resolv.conf etc/hosts; do\n"
	"	[ ! -f $R/$file ] || [ -L $R/$file ] || mount --bind /$file $R/$file\n"
	"done\n"
	"rc=$R/usr/sbin/policy-rc.d\n"
	"if [ -e $rc ]; then rc=; else printf '#!/bin/sh\\nexit 101\\n' >$rc; chmod 755 $rc; fi\n"
	"[ ! -e $B/context.tar ] || tar -xf $B/context.tar -C $B/context --no-same-owner\n"
	"rm -f $B/context.tar\n"
	"for step in $B/steps/[0-9][0-9][0-9]; do\n"
	"	[ -e $step ] || continue\n"
	"	cat $step.title\n"
	"	status=0\n"
	"	chroot $R /bin/bash $step </dev/null 3>&- || status=$?\n"
	"	if [ $status != 0 ]; then\n"
	"		echo \"this step failed with status $status\" >&2\n"
	"		exit 10\n"
	"	fi\n"
	"done\n"
	"chroot $R dpkg-query -W -f '${Package}\\t${Version}\\n' >$B/packages 2>/dev/null 3>&- || :\n"
	"for process in /proc/[0-9]*; do\n"
	"	case $(readlink $process/root) in $R*) kill -KILL ${process#/proc/} || : ;; esac\n"
	"done\n"
	"for dir in etc/resolv.conf etc/hosts .build tmp run proc sys dev; do\n"
	"	umount -R -l $R/$dir 2>/dev/null || :\n"
	"done\n"
	"rmdir $R/.build || :\n"
	"[ -z \"$rc\" ] || rm -f $rc\n"
	"rm -rf $R/var/cache/apt/archives/*.deb $R/root/.cache $R/root/.npm\n"
	"echo 'packing the image'\n"
	/* where its disk is full, mkfs.erofs does not end */
	"need=$(($(cat /sys/class/block/$disk/size) / 2048 + $(df -m --output=used $B/mnt | tail -n 1)))\n"
	"left=$(df -m --output=avail $B/mnt | tail -n 1)\n"
	"if [ $need -gt $left ]; then\n"
	"	echo \"to pack the image takes $need MiB, and $left are left: build with more memory\" >&2\n"
	"	exit 12\n"
	"fi\n"
	"timeout -k 10 1800 mkfs.erofs --quiet -x-1 -T" EPOCH_TEXT " --mkfs-time \\\n"
	"	-U00000000-0000-0000-0000-000000000000 \\\n"
	"	--exclude-regex='^(dev|proc|sys|run|tmp)/.' $B/mnt/rootfs.erofs $R >&2\n"
	"cat $B/mnt/rootfs.erofs >&3\n";
/* clang-format on */

int image_quote(struct buffer *out, const char *text)
{
	int r = buffer_add(out, "'", 1);

	for (size_t n; !r && *text; text += n) {
		n = strcspn(text, "'");
		r = buffer_add(out, text, n);
		if (!r && text[n]) {
			r = buffer_add_text(out, "'\\''");
			n++;
		}
	}
	return r ? r : buffer_add(out, "'", 1);
}

/* name='text' and a line's end */
static int assign(struct buffer *out, const char *name, const char *text)
{
	int r = buffer_printf(out, "%s=", name);

	r = r ? r : image_quote(out, text);
	return r ? r : buffer_add(out, "\n", 1);
}

static int add_words(const struct image_step *step, struct buffer *out)
{
	int r = 0;

	for (size_t i = 0; i < step->word_count && !r; i++) {
		r = buffer_add(out, " ", 1);
		r = r ? r : image_quote(out, step->words[i]);
	}
	return r;
}

static int run_script(const struct image_step *step, struct buffer *out)
{
	char name[64], *colon;
	int r = assign(out, "_sm_dir", step->workdir);

	r = r ? r
	      : buffer_add_text(
			out, "mkdir -p -- \"$_sm_dir\"\ncd -- \"$_sm_dir\"\nunset _sm_dir\n");
	if (r || !step->user) {
		r = r ? r : buffer_add_text(out, "exec --");
		r = r ? r : add_words(step, out);
		return r ? r : buffer_add(out, "\n", 1);
	}
	if (text_copy(name, sizeof(name), step->user))
		return -EINVAL;
	colon = strchr(name, ':');
	if (colon)
		*colon++ = 0;
	r = assign(out, "_sm_u", name);
	r = r ? r : assign(out, "_sm_g", colon ? colon : "");
	r = r ? r
	      : buffer_add_text(out,
			"_sm_n=--clear-groups _sm_h=/\n"
			"if getent passwd \"$_sm_u\" >/dev/null; then\n"
			"	_sm_g=${_sm_g:-$(id -g \"$_sm_u\")} _sm_n=--init-groups\n"
			"	_sm_h=$(getent passwd \"$_sm_u\" | cut -d: -f6)\n"
			"fi\n"
			"export HOME=\"$_sm_h\" USER=\"$_sm_u\"\n"
			"exec setpriv --reuid=\"$_sm_u\" --regid=\"${_sm_g:-0}\" $_sm_n --");
	r = r ? r : add_words(step, out);
	return r ? r : buffer_add(out, "\n", 1);
}

static int file_script(const struct image_step *step, struct buffer *out)
{
	int r = assign(out, "to", step->target);

	/* a new file belongs to whom its folder belongs to */
	return r ? r
		 : buffer_printf(out,
			   "mkdir -p -- \"$(dirname -- \"$to\")\"\n"
			   "install -T -m %o /.build/files/%zu \"$to\"\n"
			   "chown --reference=\"$(dirname -- \"$to\")\" -- \"$to\"\n",
			   (unsigned)step->mode, step->file);
}

static int directory_script(const struct image_step *step, struct buffer *out)
{
	int r = assign(out, "to", step->target);

	r = r ? r : assign(out, "owner", step->owner ? step->owner : "");
	return r ? r
		 : buffer_add_text(out, "if [ ! -d \"$to\" ]; then\n"
					"	mkdir -p -- \"$to\"\n"
					"	[ -z \"$owner\" ] || chown -- \"$owner\": \"$to\"\n"
					"fi\n");
}

/* A staging folder takes what is copied, so that owner and mode reach nothing else. */
static int copy_script(const struct image_step *step, struct buffer *out)
{
	char mode[16] = "";
	int r = assign(out, "to", step->target);

	if (step->mode >= 0)
		text_format(mode, sizeof(mode), "%o", (unsigned)step->mode);
	r = r ? r : assign(out, "owner", step->owner ? step->owner : "");
	r = r ? r : assign(out, "mode", mode);
	r = r ? r : assign(out, "into", step->into ? "1" : "");
	r = r ? r : buffer_add_text(out, "patterns=(");
	r = r ? r : add_words(step, out);
	return r ? r
		 : buffer_add_text(out,
			   ")\n"
			   "shopt -s nullglob dotglob\n"
			   "IFS=\n"
			   "cd " IMAGE_CONTEXT_FOLDER "\n"
			   "stage=$(mktemp -d /tmp/copy.XXXXXX)\n"
			   "[ ! -d \"$to\" ] || into=1\n"
			   "for pattern in \"${patterns[@]}\"; do\n"
			   "	set -- $pattern\n"
			   "	[ $# -gt 0 ] || { echo \"$pattern: nothing in the context is named "
			   "so\" >&2; exit 1; }\n"
			   "	for source; do\n"
			   "		[ -e \"$source\" ] || [ -L \"$source\" ] || {\n"
			   "			echo \"$source: is not in the context\" >&2; exit "
			   "1; }\n"
			   "		if [ -d \"$source\" ] && [ ! -L \"$source\" ]; then\n"
			   "			cp -a -- \"$source/.\" \"$stage/\"\n"
			   "			into=1\n"
			   "		elif [ -n \"$into\" ]; then\n"
			   "			cp -a -- \"$source\" \"$stage/\"\n"
			   "		else\n"
			   "			cp -a -T -- \"$source\" \"$stage/$(basename -- "
			   "\"$to\")\"\n"
			   "			to=$(dirname -- \"$to\")\n"
			   "		fi\n"
			   "	done\n"
			   "done\n"
			   "[ -z \"$owner\" ] || chown -R -h -- \"$owner\" \"$stage\"\n"
			   "[ -z \"$mode\" ] || chmod -R \"$mode\" \"$stage\"\n"
			   "chmod u+rwx \"$stage\"\n"
			   "if [ ! -d \"$to\" ]; then\n"
			   "	mkdir -p -- \"$to\"\n"
			   "	[ -z \"$owner\" ] || chown -- \"$owner\" \"$to\"\n"
			   "fi\n"
			   "cp -a --remove-destination -- \"$stage\"/* \"$to/\"\n"
			   "rm -rf -- \"$stage\"\n");
}

int image_step_script(
	const struct image_plan *plan, const struct image_step *step, struct buffer *out)
{
	int r = buffer_add_text(out, "set -e\n. /.build/env\n");

	for (size_t i = 0; i < step->variables && !r; i++) {
		r = buffer_add_text(out, "export ");
		r = r ? r : assign(out, plan->variables[i].name, plan->variables[i].value);
	}
	if (r)
		return r;
	switch (step->kind) {
	case IMAGE_STEP_RUN:
		return run_script(step, out);
	case IMAGE_STEP_COPY:
		return copy_script(step, out);
	case IMAGE_STEP_FILE:
		return file_script(step, out);
	case IMAGE_STEP_DIRECTORY:
		return directory_script(step, out);
	}
	return -EINVAL;
}
