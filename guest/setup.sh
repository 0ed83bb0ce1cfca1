#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds what a Sealmark host keeps: the guest kernel and the images.
#
# Theory of operation
#
# Everything is made in $SEALMARK_HOME/tmp/setup.XXXXXX and comes to its place by one rename, so
# what is under kernels/ and images/ is whole. What is made is found again by the digest of what
# it is made from; when that is already there, nothing is locked, fetched or written. Otherwise
# one setup works at a time (setup.lock). A signal ends the running job and removes the work
# folder; what a SIGKILL or a power cut leaves there is swept by the next setup.
#
# The host's package manager is read (mirror, proxy), never written: sources, lists, cache and
# configuration of the fetch are private to the work folder.
#
# Runs only trusted input: the files beside it, and packages signed by Debian.
# shellcheck disable=SC2317 # functions called by traps and by name
set -eu
umask 022
LC_ALL=C
export LC_ALL

usage() {
	cat <<'END'
usage: sealmark setup [--kernel] [--image NAME]... [--all] [--force] [--quiet]

Builds the guest kernel and the images into $SEALMARK_HOME; what is up to date is left alone.
Without --kernel and --image, everything.

  --kernel        the guest kernel
  --image NAME    an image: a folder in the recipes that come with Sealmark
  --all           everything (the default)
  --force         build even what is up to date
  --quiet         print errors only

SEALMARK_HOME            where it goes (root: /var/lib/sealmark; else: ~/.local/share/sealmark)
SEALMARK_DATA            folder with kernel/ and images/, if not beside this program
SEALMARK_DEBIAN_MIRROR   Debian mirror, if not the one of this host's apt
SEALMARK_NPM_REGISTRY    npm registry, if not the public one
SEALMARK_LINUX           kernel series to build, as 7.2; the newest 7.x if unset
http_proxy, https_proxy  are honoured, as is the proxy of this host's apt
END
}

# -- saying things ---------------------------------------------------------------------------

quiet=
on_tty=
[ -t 2 ] && on_tty=1
log=
step=0
steps=0

say() {
	[ -n "$quiet" ] || printf '%s\n' "$*" >&2
}

# fail MESSAGE [CURE]: the end, with the tail of the log if a job has just failed.
fail() {
	printf 'sealmark setup: %s\n' "$1" >&2
	[ $# -lt 2 ] || printf '  %s\n' "$2" >&2
	exit 3
}

fail_job() {
	if [ -n "$log" ] && [ -s "$log" ]; then
		printf '%s\n' '--- end of the log:' >&2
		tail -n 15 "$log" >&2
		printf '%s\n' "--- all of it: $log" >&2
	fi
	fail "$@"
}

now() {
	date +%s
}

begin_step() {
	step=$((step + 1))
	step_name=$1
	step_start=$(now)
	[ -z "$log" ] || printf '=== %s\n' "$step_name" >>"$log"
	[ -n "$on_tty" ] || say "[$step/$steps] $step_name"
}

end_step() {
	[ -z "$on_tty" ] || [ -n "$quiet" ] || printf '\r\033[K' >&2
	say "[$step/$steps] $step_name: done in $(($(now) - step_start)) s${1:+ ($1)}"
}

# show_progress TEXT: one line that changes on a terminal, a line every 15 s elsewhere.
last_line=0
show_progress() {
	[ -z "$quiet" ] || return 0
	at=$(now)
	if [ -n "$on_tty" ]; then
		printf '\r\033[K[%s/%s] %s: %s%s s' "$step" "$steps" "$step_name" "${1:+$1, }" \
			$((at - step_start)) >&2
	elif [ $((at - last_line)) -ge 15 ] && [ $((at - step_start)) -ge 15 ]; then
		say "[$step/$steps] $step_name: ${1:+$1, }$((at - step_start)) s"
		last_line=$at
	fi
}

# -- running things --------------------------------------------------------------------------

work=
image_tmp=
job=

# run_job COUNTER COMMAND...: runs it in a session of its own, its output in the log; COUNTER
# (a function, or `:`) prints how far it is. The job dies with us, and does not hold the lock.
run_job() {
	counter=$1
	shift
	job_first_line=$(($(wc -l <"$log") + 1))
	setsid setpriv --pdeathsig KILL "$@" </dev/null >>"$log" 2>&1 9>&- &
	job=$!
	echo "$job" >"$work/session"
	[ "$image_tmp" = "$work" ] || echo "$job" >"$image_tmp/session"
	pause=0.1
	while kill -0 "$job" 2>/dev/null; do
		sleep "$pause" 9>&-
		show_progress "$($counter)"
		case $pause in 0.1) pause=0.3 ;; 0.3) pause=1 ;; esac
	done
	status=0
	wait "$job" || status=$?
	job=
	return "$status"
}

log_since() {
	tail -n "+$job_first_line" "$log"
}

# The session's processes. No `--` before the number: dash takes that for a process and kills nothing.
end_job() {
	[ -n "$job" ] || return 0
	kill -TERM "-$job" 2>/dev/null || :
	tries=0
	while kill -0 "-$job" 2>/dev/null && [ "$tries" -lt 50 ]; do
		sleep 0.1
		tries=$((tries + 1))
	done
	kill -KILL "-$job" 2>/dev/null || :
	wait "$job" 2>/dev/null || :
	job=
}

# end_session DIR: what is left of the job of the setup that made DIR, after its SIGKILL. The
# session alone could be another's by now, the folder alone could be where somebody looks around.
end_session() {
	session=$(cat "$1/session" 2>/dev/null) || return 0
	for proc in /proc/[0-9]*; do
		for link in cwd root; do
			case $(readlink "$proc/$link" 2>/dev/null) in
			"$1" | "$1"/*)
				# shellcheck disable=SC2046 # the fields after the name: state, parent, group, session
				set -- "$1" $(sed 's/.*) //' "$proc/stat" 2>/dev/null)
				[ "${5:-}" != "$session" ] || kill -KILL "${proc#/proc/}" 2>/dev/null || :
				;;
			esac
		done
	done
}

# remove_tree DIR: also ends what still runs in it and unmounts what is still mounted there.
remove_tree() {
	[ -e "$1" ] || return 0
	end_session "$1"
	awk -v dir="$1/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort -r |
		while read -r mounted; do umount -l "$mounted" || :; done
	rm -rf --one-file-system "$1" 2>/dev/null && return 0
	# An image half made by an ordinary user belongs to ids of its user namespace.
	if [ "$(id -u)" != 0 ] && command -v mmdebstrap >/dev/null; then
		mmdebstrap --unshare-helper rm -rf "$1"/mmdebstrap.* 2>/dev/null || :
	fi
	rm -rf --one-file-system "$1" 2>/dev/null || rm -rf --one-file-system "$1" ||
		printf 'sealmark setup: could not remove %s\n' "$1" >&2
}

on_exit() {
	status=$?
	trap '' INT TERM HUP
	[ -z "$on_tty" ] || [ -z "$job" ] || printf '\r\033[K' >&2
	end_job
	[ -z "$work" ] || remove_tree "$work"
	[ -z "$image_tmp" ] || remove_tree "$image_tmp"
	exit "$status"
}

stopped() {
	[ -z "$on_tty" ] || printf '\n' >&2
	printf 'sealmark setup: stopped; removing what is half-made\n' >&2
	exit "$1"
}

# -- checking things -------------------------------------------------------------------------

# need_tools WHAT: each line of stdin is "program package"; what is missing is one error.
need_tools() {
	missing=
	while read -r tool package; do
		command -v "$tool" >/dev/null || case "$missing " in *" $package "*) ;; *) missing="$missing $package" ;; esac
	done
	[ -z "$missing" ] || fail "to build $1, these Debian packages are missing:$missing" \
		"as root: apt-get install$missing"
}

# need_space WHAT MIB FOLDER
need_space() {
	free_mib=$(df -Pk "$3" | awk 'NR == 2 { print int($4 / 1024) }')
	[ "$free_mib" -ge "$2" ] || fail "to build $1, $3 needs $2 MiB free and has $free_mib" \
		"free some space, or set SEALMARK_HOME (for a user also TMPDIR) to a larger file system"
}

debian_keyring=/usr/share/keyrings/debian-archive-keyring.gpg

need_keyring() {
	[ -r "$debian_keyring" ] || fail "the keys of the Debian archive are not installed" \
		"as root: apt-get install debian-archive-keyring"
}

# json_string TEXT
json_string() {
	printf '%s' "$1" | sed -e 's/[\\"]/\\&/g' -e '1s/^/"/' -e '$s/$/"/'
}

# json_get FILE KEY: a top-level string or number of a manifest that we wrote.
json_get() {
	sed -n "s/^  \"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1" 2>/dev/null | head -n 1
}

# set_link DIR NAME TARGET: atomically, also over an older one.
set_link() {
	ln -s "$3" "$work/link"
	mv -T "$work/link" "$1/$2"
}

# -- Debian ----------------------------------------------------------------------------------

# host_mirror LABEL FOLDER: the archive that this host's apt uses, known by the label in its
# Release file; while there is none (before or during an apt-get update), by its last folder.
host_mirror() {
	# shellcheck disable=SC2016 # the $(…) are apt's
	apt-get indextargets --format '$(ORIGIN)|$(LABEL)|$(REPO_URI)' 'Created-By: Packages' 2>/dev/null |
		awk -F'|' -v label="$1" -v folder="/$2/" '
			$1 == "Debian" && $2 == label { found = $3; exit }
			!guess && index($3 "/", folder) && $3 "/" ~ folder "/?$" { guess = $3 }
			END { print found ? found : guess }'
}

find_mirror() {
	security_mirror=
	mirror=${SEALMARK_DEBIAN_MIRROR:-}
	[ -z "$mirror" ] || return 0
	mirror=$(host_mirror Debian debian)
	security_mirror=$(host_mirror Debian-Security debian-security)
	[ -n "$mirror" ] || fail "this host's apt knows no Debian mirror" \
		"set SEALMARK_DEBIAN_MIRROR to the address of one"
}

# What the host's apt was told about proxies, certificates and stale mirrors, as apt.conf lines.
host_acquire_options() {
	apt-config dump | grep -E '^Acquire::(https?|tor|Retries|ForceIPv[46]|Proxy|Check-|M..-ValidTime)' || :
}

# private_apt: an apt that shares nothing with the host's but keys, proxy and passwords.
private_apt() {
	apt=$work/apt
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/state" "$apt/none" "$apt/deb"
	: >"$apt/status"
	{
		cat <<END
Dir::Etc::Main "/dev/null";
Dir::Etc::Parts "$apt/none";
Dir::Etc::SourceList "$apt/sources.list";
Dir::Etc::SourceParts "$apt/none";
Dir::Etc::Preferences "/dev/null";
Dir::Etc::PreferencesParts "$apt/none";
Dir::State "$apt/state";
Dir::State::Lists "$apt/lists";
Dir::State::Status "$apt/status";
Dir::Cache "$apt/cache";
Acquire::Languages "none";
Acquire::Retries "3";
END
		host_acquire_options
	} >"$apt/apt.conf"
	APT_CONFIG=$apt/apt.conf
	export APT_CONFIG
	# apt fetches as this user where it exists.
	if [ "$(id -u)" = 0 ] && id _apt >/dev/null 2>&1; then
		chmod 711 "$work"
		chown -R _apt "$apt/lists/partial" "$apt/cache/archives/partial" "$apt/deb"
	fi
}

count_bytes() {
	got=$(du -sk "$apt/deb" "$apt/cache" 2>/dev/null | awk '{ kib += $1 } END { print int(kib / 1024) }')
	[ "$got" -eq 0 ] || printf '%s of %s MiB' "$got" "$deb_mib"
}

# fetch_source: the newest linux-source-7.* of the first suite that has one, to $apt/deb.
fetch_source() {
	find_mirror
	private_apt
	tried=
	wanted=$(printf '%s' "${SEALMARK_LINUX:-7.[0-9]*}" | sed 's/\./\\./')
	for suite in trixie-backports forky sid; do
		echo "deb [signed-by=$debian_keyring] $mirror $suite main" >"$apt/sources.list"
		if ! run_job : apt-get -q -o APT::Update::Error-Mode=any update; then
			tried="$tried, $suite: not reached"
			continue
		fi
		package=$(apt-cache search --names-only "^linux-source-$wanted\$" |
			awk '{ print $1 }' | sort -V | tail -n 1)
		[ -z "$package" ] || break
		tried="$tried, $suite: has none"
	done
	[ -n "${package:-}" ] || fail_job \
		"no package linux-source-${SEALMARK_LINUX:-7.x} from $mirror (${tried#, })" \
		"check the network and http_proxy; or set SEALMARK_DEBIAN_MIRROR to a complete mirror"
	deb_mib=$(apt-cache show --no-all-versions "$package" | awk '$1 == "Size:" { print int($2 / 1048576) + 1; exit }')
	run_job count_bytes env -C "$apt/deb" apt-get -q download "$package/$suite" ||
		fail_job "could not fetch $package from $mirror" "check the network and http_proxy, then run it again"
	set -- "$apt"/deb/*.deb
	deb=$1
	source_package=$(dpkg-deb -f "$deb" Package)
	source_version=$(dpkg-deb -f "$deb" Version)
	unset APT_CONFIG
}

# -- the kernel ------------------------------------------------------------------------------

kernel_options() {
	sed -e '/^#/d' -e '/^[[:space:]]*$/d' "$data/kernel/uml.config"
}

compiler_name() {
	gcc --version 2>/dev/null | head -n 1
}

kernel_digest() {
	{
		kernel_options
		cat "$data"/kernel/patches/*.patch
		printf '%s\n' "$1"
	} | sha256sum | cut -c 1-12
}

# A host without a compiler keeps the kernel it has, if that was made from these files.
kernel_is_current() {
	manifest=$home/kernels/uml/manifest.json
	[ -r "$manifest" ] && [ -x "$home/kernels/uml/linux" ] || return 1
	compiler=$(compiler_name)
	[ -n "$compiler" ] || compiler=$(json_get "$manifest" compiler)
	[ "$(json_get "$manifest" digest)" = "$(kernel_digest "$compiler")" ] || return 1
	case ${SEALMARK_LINUX:-} in
	'') return 0 ;;
	*) case $(json_get "$manifest" version) in "$SEALMARK_LINUX".*) return 0 ;; esac ;;
	esac
	return 1
}

unpack_source() {
	run_job : dpkg-deb -x "$deb" "$work/deb" || fail_job "could not unpack $source_package"
	rm -f "$deb"
	mkdir "$src"
	# What no build of ours reads is most of the tree. Kconfig files stay: they name each other.
	sed "s|^|$source_package/|" "$data/kernel/unread" >"$work/unread"
	run_job : tar -C "$src" --strip-components=1 -I 'xz -T0' --anchored --exclude-from="$work/unread" \
		-xf "$work/deb/usr/src/$source_package.tar.xz" ||
		fail_job "could not unpack the source in $source_package"
	rm -rf "$work/deb"
}

patch_source() {
	for patch in "$data"/kernel/patches/*.patch; do
		run_job : patch -d "$src" -p1 -F1 -N --no-backup-if-mismatch -r - -i "$patch" ||
			fail_job "${patch##*/} does not apply to $source_package $source_version" \
				"adapt the patch to this kernel, or set SEALMARK_LINUX to a series it applies to"
	done
}

make_kernel() {
	run_job "$1" nice make -C "$src" ARCH=um KBUILD_BUILD_USER=sealmark KBUILD_BUILD_HOST=guest \
		KBUILD_BUILD_TIMESTAMP=1970-01-01 KBUILD_BUILD_VERSION=1 "$2" "$3"
}

configure_kernel() {
	make_kernel : -s tinyconfig || fail_job "make tinyconfig failed"
	kernel_options | sed 's/[[:space:]]*# if known$//' >>"$src/.config"
	make_kernel : -s olddefconfig || fail_job "make olddefconfig failed"
	lost=$(kernel_options | while read -r option; do
		case $option in
		*'# if known') continue ;;
		*=n) ! grep -q "^${option%=n}=" "$src/.config" || echo "$option" ;;
		*) grep -qxF "$option" "$src/.config" || echo "$option" ;;
		esac
	done)
	[ -z "$lost" ] || fail "$source_package $source_version does not take these options of uml.config:" \
		"$(printf '%s' "$lost" | tr '\n' ' ')"
}

# A build of today's options compiles about this many files; only for the progress line.
kernel_objects=690
count_objects() {
	printf '%s of about %s files' "$(log_since | grep -cE '^ +(CC|AS) ')" "$kernel_objects"
}

build_kernel() {
	need_keyring
	need_tools 'the guest kernel' <<'END'
apt-get apt
bc bc
bison bison
flex flex
gcc gcc
make make
nice coreutils
patch patch
xz xz-utils
END
	# gcc answers with a path where it has the file and with the bare name where not.
	case $(gcc -print-file-name=libc.a) in
	/*) ;;
	*) fail "to build the guest kernel, gcc needs the C library's files" \
		"as root: apt-get install libc6-dev" ;;
	esac
	need_space 'the guest kernel' 1800 "$home"

	begin_step 'fetch the kernel source'
	fetch_source
	end_step "$source_package $source_version"

	src=$work/linux
	begin_step 'unpack and configure the kernel'
	unpack_source
	patch_source
	configure_kernel
	end_step

	begin_step 'compile the kernel'
	make_kernel count_objects "-j$(nproc)" linux || fail_job 'the kernel does not compile'
	build_seconds=$(($(now) - step_start))
	end_step

	version=$(make -s -C "$src" ARCH=um kernelrelease)
	compiler=$(compiler_name)
	digest=$(kernel_digest "$compiler")
	name=$version-$digest
	made=$work/$name
	mkdir "$made"
	strip -o "$made/linux" "$src/linux"
	chmod 755 "$made/linux"
	cp "$src/.config" "$made/config"
	cat >"$made/manifest.json" <<END
{
  "engine": "uml",
  "version": $(json_string "$version"),
  "source_package": $(json_string "$source_package"),
  "source_version": $(json_string "$source_version"),
  "digest": "$digest",
  "sha256": "$(sha256sum "$made/linux" | cut -c 1-64)",
  "size_bytes": $(stat -c %s "$made/linux"),
  "options": $(grep -c '=y$' "$made/config"),
  "compiler": $(json_string "$compiler"),
  "build_seconds": $build_seconds,
  "created": "$(date -u +%Y-%m-%dT%H:%M:%SZ)"
}
END
	sync -f "$made/linux"
	mkdir -p "$home/kernels"
	[ ! -e "$home/kernels/$name" ] || mv -T "$home/kernels/$name" "$work/replaced-kernel"
	mv -T "$made" "$home/kernels/$name"
	set_link "$home/kernels" uml "$name"
	rm -rf "$src"
	say "kernel $name: $(($(stat -c %s "$home/kernels/$name/linux") / 1024)) KiB"
}

# -- images ----------------------------------------------------------------------------------

# The time stamp of every file of every image, and the format of what is made: a change here
# makes all images anew.
epoch=1700000000
image_format=1

image_names() {
	for dir in "$data"/images/*/; do
		[ ! -r "$dir/recipe" ] || basename "$dir"
	done
}

# recipe_get NAME KEY
recipe_get() {
	sed -n "s/^$2=//p" "$data/images/$1/recipe" | head -n 1
}

recipe_list() {
	sed -e 's/#.*//' -e 's/[[:space:]]//g' -e '/^$/d' "$data/images/$1/$2"
}

recipe_digest() {
	(
		cd "$data/images/$1"
		for file in recipe packages exclude downloads customize; do
			printf '%s\n' "$file"
			[ ! -e "$file" ] || cat "$file"
		done
		printf 'format %s epoch %s pack %s\n' "$image_format" "$epoch" "$pack_options"
	) | sha256sum | cut -c 1-12
}

image_is_current() {
	manifest=$home/images/$1/latest/manifest.json
	[ -r "$manifest" ] && [ -r "$home/images/$1/latest/rootfs.erofs" ] &&
		[ "$(json_get "$manifest" recipe_digest)" = "$(recipe_digest "$1")" ]
}

next_version() {
	newest=0
	for dir in "$home/images/$1"/[0-9]*/; do
		number=$(basename "$dir")
		case $number in *[!0-9]*) continue ;; esac
		[ "$number" -le "$newest" ] || newest=$number
	done
	echo $((newest + 1))
}

count_packages() {
	log_since | awk '
		/^Get:/ { fetched++ }
		/^Unpacking / { unpacked++ }
		/^Setting up / { set_up++ }
		END { if (unpacked) printf "%d packages unpacked, %d set up", unpacked, set_up
		      else if (fetched) printf "%d files fetched", fetched }'
}

# How mkfs.erofs packs: as it is. lz4 saves 40 % of the disk and costs each first start of a
# program in a machine 1 to 10 % (README.md).
pack_options=

npm_registry=${SEALMARK_NPM_REGISTRY:-https://registry.npmjs.org}

# The mode in which mmdebstrap can work here, or the reason why it cannot.
choose_mode() {
	image_mode=root
	[ "$(id -u)" != 0 ] || return 0
	image_mode=unshare
	user=$(id -un)
	command -v newuidmap >/dev/null || fail "an ordinary user cannot build images without newuidmap" \
		"as root: apt-get install uidmap; or run sealmark setup as root"
	for file in /etc/subuid /etc/subgid; do
		grep -qE "^($user|$(id -u)):" "$file" 2>/dev/null ||
			fail "$user has no range of ids in $file, which building an image needs" \
				"as root: usermod --add-subuids 100000-165535 --add-subgids 100000-165535 $user; or run sealmark setup as root"
	done
	unshare --user true 2>/dev/null || fail "this host does not let ordinary users make user namespaces" \
		"as root: sysctl kernel.unprivileged_userns_clone=1 (or user.max_user_namespaces=10000); or run sealmark setup as root"
}

# pack_image: what mmdebstrap runs last, inside its user namespace if it has one; $1 is the root.
write_pack_hook() {
	cat >"$image_tmp/pack" <<'END'
#!/bin/sh
# shellcheck disable=SC2317 # functions called by traps and by name
set -eu
root=$1
# mmdebstrap keeps the configuration of its apt in the root's /tmp. Without it, what it runs next
# would be the host's own apt.
if [ ! -e "${MMDEBSTRAP_APT_CONFIG:?}" ]; then
	echo "the recipe's customize has emptied /tmp of the image, which setup does by itself" >&2
	exit 1
fi
# What only this host knows must not reach a student: mirror, proxy, keys of other archives. What
# customize made of the archive's public names stands instead.
rm -rf "$root"/etc/apt/sources.list "$root"/etc/apt/sources.list.d/* "$root"/etc/apt/apt.conf.d/99mmdebstrap \
	"$root"/etc/apt/auth.conf.d/* "$root"/etc/dpkg/dpkg.cfg.d/99mmdebstrap \
	"$root"/var/cache/apt/* "$root"/var/lib/apt/lists/*
[ ! -e "$root/usr/local/share/debian.sources" ] ||
	mv "$root/usr/local/share/debian.sources" "$root/etc/apt/sources.list.d/debian.sources"
# shellcheck disable=SC2016 # the ${…} are dpkg's
dpkg-query --root="$root" -W -f '${Package}\t${Version}\n' >"$PACK_LIST"
# shellcheck disable=SC2086 # options are words
mkfs.erofs --quiet -x-1 $PACK_OPTIONS -T"$EPOCH" -U00000000-0000-0000-0000-000000000000 \
	--exclude-regex='^(dev|proc|sys|run|tmp)/.' --exclude-regex='^\.sealmark' "$PACK_FILE" "$root"
END
	chmod 755 "$image_tmp/pack"
}

# fetch_downloads NAME: what its file `downloads` names, into $image_tmp/downloads, each checked. The
# downloader is the one of the host's apt, with its proxy.
fetch_downloads() {
	mkdir "$image_tmp/downloads"
	[ -e "$data/images/$1/downloads" ] || return 0
	begin_step "fetch what the image $1 takes from the npm registry"
	sed -e 's/#.*//' -e '/^[[:space:]]*$/d' "$data/images/$1/downloads" >"$work/fetch"
	while read -r path digest; do
		run_job : /usr/lib/apt/apt-helper -q download-file "$npm_registry/$path" \
			"$image_tmp/downloads/${path##*/}" "SHA512:$digest" ||
			fail_job "${path##*/} could not be fetched from $npm_registry, or is not what it should be" \
				"check the network and https_proxy, or set SEALMARK_NPM_REGISTRY to a mirror of the npm registry"
	done <"$work/fetch"
	chmod -R a+rX "$image_tmp/downloads"
	end_step
}

build_image() {
	image=$1
	recipe=$data/images/$image
	for file in recipe packages exclude customize; do
		[ -r "$recipe/$file" ] || fail "the recipe of the image $image has no file $file"
	done
	need_keyring
	need_tools "the image $image" <<'END'
apt-get apt
mkfs.erofs erofs-utils
mmdebstrap mmdebstrap
END
	choose_mode
	need_space "the image $image" 3000 "$home"
	[ "$image_tmp" = "$work" ] || need_space "the image $image" 2000 "$image_tmp"
	find_mirror
	fetch_downloads "$image"
	write_pack_hook
	cp "$recipe/customize" "$image_tmp/customize"
	suite=$(recipe_get "$image" suite)
	components=$(recipe_get "$image" components)
	made=$work/image-$image
	mkdir "$made"

	set -- --mode="$image_mode" --variant="$(recipe_get "$image" variant)" --format=null \
		--skip=cleanup --verbose \
		--aptopt='APT::Install-Recommends "false"' --aptopt='Acquire::Languages "none"' \
		--include="$(recipe_list "$image" packages | paste -sd , -)"
	# Some packages put links into a folder of manual pages without asking whether it is there.
	# shellcheck disable=SC2016 # $1 is mmdebstrap's, here and below
	set -- "$@" --setup-hook='mkdir -p "$1/usr/share/man/man1"'
	while read -r glob; do
		set -- "$@" --dpkgopt="path-exclude=$glob"
	done <<END
$(recipe_list "$image" exclude)
END
	host_acquire_options >"$work/acquire.conf"
	while read -r option; do
		[ -z "$option" ] || set -- "$@" --aptopt="${option%;}"
	done <"$work/acquire.conf"
	# shellcheck disable=SC2016
	set -- "$@" --customize-hook='sh "$CUSTOMIZE" "$1"'
	if [ "$image_mode" = root ]; then
		# shellcheck disable=SC2016
		set -- "$@" --customize-hook='"$PACK_HOOK" "$1"'
		pack_file=$made/rootfs.erofs
		pack_list=$work/packages
	else
		# Inside the namespace only the root itself can be written; mmdebstrap carries it out.
		# shellcheck disable=SC2016
		set -- "$@" --customize-hook='PACK_FILE="$1/.sealmark.erofs" PACK_LIST="$1/.sealmark.packages" "$PACK_HOOK" "$1"' \
			--customize-hook="download /.sealmark.erofs $made/rootfs.erofs" \
			--customize-hook="download /.sealmark.packages $work/packages"
		pack_file=
		pack_list=
	fi
	set -- "$@" "$suite" /dev/null "deb [signed-by=$debian_keyring] $mirror $suite $components" \
		"deb [signed-by=$debian_keyring] $mirror $suite-updates $components"
	[ -z "$security_mirror" ] ||
		set -- "$@" "deb [signed-by=$debian_keyring] $security_mirror $suite-security $components"

	begin_step "build the image $image"
	run_job count_packages env TMPDIR="$image_tmp" EPOCH="$epoch" PACK_HOOK="$image_tmp/pack" \
		PACK_FILE="$pack_file" PACK_LIST="$pack_list" PACK_OPTIONS="$pack_options" \
		CUSTOMIZE="$image_tmp/customize" RECIPE_USER="$(recipe_get "$image" user)" \
		RECIPE_UID="$(recipe_get "$image" uid)" RECIPE_GID="$(recipe_get "$image" gid)" \
		RECIPE_CWD="$(recipe_get "$image" cwd)" RECIPE_SUITE="$suite" \
		DOWNLOADS="$image_tmp/downloads" nice mmdebstrap "$@" ||
		fail_job "the image $image could not be built from $mirror" \
			"check the network and http_proxy, then run it again"
	[ -s "$made/rootfs.erofs" ] || fail_job "the image $image came out empty"
	chmod 644 "$made/rootfs.erofs"
	end_step "$(($(stat -c %s "$made/rootfs.erofs") / 1048576)) MiB"

	begin_step "seal the image $image"
	version=$(next_version "$image")
	write_image_manifest "$image" "$version" >"$made/manifest.json"
	sync -f "$made/rootfs.erofs"
	mkdir -p "$home/images/$image"
	mv -T "$made" "$home/images/$image/$version"
	set_link "$home/images/$image" latest "$version"
	end_step "$image version $version"
}

write_image_manifest() {
	cat <<END
{
  "name": $(json_string "$1"),
  "version": $2,
  "description": $(json_string "$(recipe_get "$1" description)"),
  "recipe_digest": "$(recipe_digest "$1")",
  "sha256": "$(sha256sum "$made/rootfs.erofs" | cut -c 1-64)",
  "size_bytes": $(stat -c %s "$made/rootfs.erofs"),
  "created": "$(date -u +%Y-%m-%dT%H:%M:%SZ)",
  "suite": $(json_string "$suite"),
  "user": $(json_string "$(recipe_get "$1" user)"),
  "uid": $(recipe_get "$1" uid),
  "gid": $(recipe_get "$1" gid),
  "cwd": $(json_string "$(recipe_get "$1" cwd)"),
  "env": {
    "PATH": $(json_string "$(recipe_get "$1" path)"),
    "LANG": $(json_string "$(recipe_get "$1" lang)")
  },
  "packages": {
$(awk -F'\t' '{ printf "%s    \"%s\": \"%s\"", sep, $1, $2; sep = ",\n" } END { print "" }' "$work/packages")
  }
}
END
}

# -- main ------------------------------------------------------------------------------------

find_data() {
	here=$(dirname "$(readlink -f "$0")")
	for data in "${SEALMARK_DATA:-}" "$here" "$here/../../share/sealmark/guest"; do
		if [ -n "$data" ] && [ -r "$data/kernel/uml.config" ]; then
			data=$(readlink -f "$data")
			return 0
		fi
		[ -z "${SEALMARK_DATA:-}" ] || break
	done
	fail "no kernel/uml.config in ${SEALMARK_DATA:-$here}" \
		"set SEALMARK_DATA to the folder guest of Sealmark's source, or install Sealmark again"
}

find_home() {
	if [ -n "${SEALMARK_HOME:-}" ]; then
		home=$SEALMARK_HOME
	elif [ "$(id -u)" = 0 ]; then
		home=/var/lib/sealmark
	else
		home=${XDG_DATA_HOME:-${HOME:?is not set}/.local/share}/sealmark
	fi
	case $home in /*) ;; *) home=$PWD/$home ;; esac
}

# What is asked for and not there yet, in $todo_kernel and $todo_images.
find_work() {
	todo_kernel=
	todo_images=
	steps=0
	if [ -n "$want_kernel" ] && { [ -n "$force" ] || ! kernel_is_current; }; then
		todo_kernel=1
		steps=$((steps + 3))
	fi
	for name in $want_images; do
		if [ -n "$force" ] || ! image_is_current "$name"; then
			todo_images="$todo_images $name"
			steps=$((steps + 2))
			[ ! -e "$data/images/$name/downloads" ] || steps=$((steps + 1))
		fi
	done
}

say_ready() {
	[ -z "$want_kernel" ] || say "kernel: $(readlink "$home/kernels/uml")"
	for name in $want_images; do
		say "image: $name, version $(readlink "$home/images/$name/latest")"
	done
}

open_work() {
	mkdir -p "$home/tmp" "$home/log" 2>/dev/null ||
		fail "cannot write to $home" "run sealmark setup as root, or set SEALMARK_HOME to a folder of yours"
	home=$(readlink -f "$home")
	for dir in "$home/kernels" "$home/images"; do
		if [ -e "$dir" ] && [ ! -w "$dir" ]; then
			fail "cannot write to $dir" "run sealmark setup as its owner, or set SEALMARK_HOME to a folder of yours"
		fi
	done
	exec 9>>"$home/setup.lock" || fail "cannot write to $home" "run sealmark setup as its owner"
	if ! flock -n 9; then
		say "another setup is at work in $home: waiting for it"
		flock 9
	fi
	trap on_exit EXIT
	trap 'stopped 130' INT
	trap 'stopped 143' TERM HUP
	user_tmp=${TMPDIR:-/tmp}/sealmark-setup.$(id -u)
	for left in "$home"/tmp/setup.* "$user_tmp".*; do
		if [ ! -d "$left" ] || [ ! -O "$left" ]; then continue; fi
		 say "removing what a killed setup left"
		remove_tree "$left"
	done
	work=$(mktemp -d "$home/tmp/setup.XXXXXX")
	chmod 755 "$work"
	image_tmp=$work
	# The user namespace of an ordinary user's image cannot look into that user's home.
	if [ "$(id -u)" != 0 ]; then
		image_tmp=$(mktemp -d "$user_tmp.XXXXXX")
		chmod 755 "$image_tmp"
	fi
	log=$home/log/setup-$(date -u +%Y%m%dT%H%M%SZ).log
	: >"$log"
	# The newest ten logs are enough.
	find "$home/log" -name 'setup-*.log' | sort -r | tail -n +11 | xargs -r rm -f
}

main() {
	want_kernel=
	want_images=
	force=
	find_data
	while [ $# -gt 0 ]; do
		case $1 in
		--kernel) want_kernel=1 ;;
		--image=*) want_images="$want_images ${1#*=}" ;;
		--image)
			[ $# -ge 2 ] || bad_usage '--image needs the name of an image'
			want_images="$want_images $2"
			shift
			;;
		--all)
			want_kernel=1
			want_images=$(image_names)
			;;
		--force) force=1 ;;
		--quiet) quiet=1 ;;
		-h | --help)
			usage
			exit 0
			;;
		*) bad_usage "unknown argument: $1" ;;
		esac
		shift
	done
	if [ -z "$want_kernel$want_images" ]; then
		want_kernel=1
		want_images=$(image_names)
	fi
	for name in $want_images; do
		case $name in
		*[!a-z0-9-]*) bad_usage "not the name of an image: $name" ;;
		esac
		[ -r "$data/images/$name/recipe" ] ||
			bad_usage "there is no recipe for an image $name; there is: $(image_names | paste -sd ' ' -)"
	done
	find_home
	find_work
	if [ "$steps" -gt 0 ]; then
		[ "$(uname -m)" = x86_64 ] || fail "guest kernels and images are built for x86_64; this is $(uname -m)"
		need_tools 'anything' <<'END'
apt-get apt
awk mawk
find findutils
flock util-linux
mktemp coreutils
setpriv util-linux
setsid util-linux
xargs findutils
END
		open_work
		# Another setup may have done it while we waited.
		find_work
		started=$(now)
		[ -z "$todo_kernel" ] || build_kernel
		for name in $todo_images; do
			build_image "$name"
		done
		say "ready in $(($(now) - started)) s"
	fi
	say_ready
}

bad_usage() {
	printf 'sealmark setup: %s\n' "$1" >&2
	printf '  sealmark setup --help says what there is\n' >&2
	exit 2
}

# On one line, so that nothing is read from this file once main has returned.
main "$@"; exit
