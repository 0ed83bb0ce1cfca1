/* SPDX-License-Identifier: Apache-2.0 - from the kernel's first call of /init to a connected host.
 */
#include "agent.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/*
 * Theory of operation
 *
 * The kernel gives us an initramfs with this program alone. The image is mounted read only below
 * /image, one tmpfs below /layer holds everything that the guest can write (the overlay's upper
 * layer, /dev/shm), so that its size is the one limit of the disk. The overlay of both becomes the
 * root; the way to /image and /layer is gone with the old root, for all but this process, which
 * keeps a descriptor of the layer to see how full it is.
 *
 * What is made here is what a student sees: a /dev without block devices and kernel logs, a /proc
 * that shows a user nothing but its own processes, cgroups and /sys that are read only.
 */
#define NEW_ROOT   "/root"
#define DISK_MIB   128u
#define DISK_FILES 65536u
#define USER_ID    1000 /* owner of /workspace, the usual user of images */
#define VSOCK_HOST 2u

/* From linux/vm_sockets.h, which musl's headers do not have. */
struct vsock_address {
	sa_family_t family;
	uint16_t reserved;
	uint32_t port, cid;
	uint8_t flags, zero[3];
};

_Noreturn void boot_power_off(const char *why)
{
	if (why)
		fprintf(stderr, "sealmark-agent: %s\n", why);
	/* Nothing here outlives the machine, so there is nothing to sync or to wait for. */
	reboot(RB_POWER_OFF);
	_exit(1);
}

_Noreturn static void give_up(const char *what)
{
	char text[256];

	snprintf(text, sizeof(text), "%.150s: %s", what, strerror(errno));
	boot_power_off(text);
}

static uint32_t setting(const char *name, uint32_t otherwise)
{
	const char *text = getenv(name);
	char *end;
	unsigned long value;

	if (!text)
		return otherwise;
	value = strtoul(text, &end, 10);
	return end == text || *end || !value || value > UINT32_MAX ? otherwise : (uint32_t)value;
}

static void must_mount(const char *what, const char *where, const char *kind, unsigned long flags,
	const char *options)
{
	mkdir(where, 0755);
	if (mount(what, where, kind, flags, options))
		give_up(where);
}

static void write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	/* not every kernel has every knob: those are wishes, the fences are elsewhere */
	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		fprintf(stderr, "sealmark-agent: %s: %s\n", path, strerror(errno));
	close(fd);
}

/* The initramfs has /dev/console only; the kernel has opened it for us if it could. */
static void first_devices(void)
{
	must_mount("dev", "/dev", "devtmpfs", MS_NOSUID | MS_NOEXEC, "mode=755");
	for (int fd = 0; fd < 3; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/console", O_RDWR) < 0)
			open("/dev/null", O_RDWR);
}

static void mount_image(void)
{
	static const char *const devices[] = {"/dev/ubda", "/dev/vda"};

	mkdir("/image", 0755);
	for (size_t i = 0; i < sizeof(devices) / sizeof(*devices); i++)
		if (mount(devices[i], "/image", "erofs", MS_RDONLY | MS_NODEV, NULL) == 0)
			return;
	give_up("no image on /dev/ubda or /dev/vda");
}

static void mount_root(struct agent *a)
{
	char options[128];

	snprintf(options, sizeof(options), "mode=755,size=%um,nr_inodes=%u",
		setting("sm_disk", DISK_MIB), setting("sm_files", DISK_FILES));
	must_mount("layer", "/layer", "tmpfs", MS_NODEV, options);
	if (mkdir("/layer/upper", 0755) || mkdir("/layer/work", 0755) || mkdir("/layer/shm", 01777))
		give_up("/layer");
	chmod("/layer/shm", 01777);
	a->disk_fd = open("/layer", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	must_mount("root", NEW_ROOT, "overlay", MS_NODEV,
		"lowerdir=/image,upperdir=/layer/upper,workdir=/layer/work");
}

/* Nodes of the guest's own /dev: no block device, no log, no memory. */
static void mount_devices(void)
{
	static const struct {
		const char *path;
		unsigned major, minor;
	} nodes[] = {{NEW_ROOT "/dev/null", 1, 3}, {NEW_ROOT "/dev/zero", 1, 5},
		{NEW_ROOT "/dev/full", 1, 7}, {NEW_ROOT "/dev/random", 1, 8},
		{NEW_ROOT "/dev/urandom", 1, 9}, {NEW_ROOT "/dev/tty", 5, 0}};
	static const char *const links[][2] = {{"/proc/self/fd", NEW_ROOT "/dev/fd"},
		{"/proc/self/fd/0", NEW_ROOT "/dev/stdin"},
		{"/proc/self/fd/1", NEW_ROOT "/dev/stdout"},
		{"/proc/self/fd/2", NEW_ROOT "/dev/stderr"}, {"pts/ptmx", NEW_ROOT "/dev/ptmx"}};

	must_mount("dev", NEW_ROOT "/dev", "tmpfs", MS_NOSUID | MS_NOEXEC,
		"mode=755,size=64k,nr_inodes=64");
	for (size_t i = 0; i < sizeof(nodes) / sizeof(*nodes); i++) {
		if (mknod(nodes[i].path, S_IFCHR | 0666, makedev(nodes[i].major, nodes[i].minor)))
			give_up(nodes[i].path);
		chmod(nodes[i].path, 0666);
	}
	for (size_t i = 0; i < sizeof(links) / sizeof(*links); i++)
		if (symlink(links[i][0], links[i][1]))
			give_up(links[i][1]);
	must_mount("devpts", NEW_ROOT "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
		"newinstance,ptmxmode=0666,mode=620,gid=5");
	mkdir(NEW_ROOT "/dev/shm", 01777);
	if (mount("/layer/shm", NEW_ROOT "/dev/shm", NULL, MS_BIND, NULL) ||
		mount(NULL, NEW_ROOT "/dev/shm", NULL,
			MS_BIND | MS_REMOUNT | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		give_up(NEW_ROOT "/dev/shm");
}

/* The agent's own mount stays writable and has no path; what the guest sees of it is read only. */
static void mount_cgroups(struct agent *a)
{
	const char *where = NEW_ROOT "/sys/fs/cgroup";

	mkdir("/cgroup", 0755);
	if (mount("cgroup", "/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL))
		give_up("cgroup2");
	a->cgroup_fd = open("/cgroup", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (a->cgroup_fd < 0)
		give_up("/cgroup");
	write_text("/cgroup/cgroup.subtree_control", "+memory +pids +cpu");
	if (mount("/cgroup", where, NULL, MS_BIND, NULL) == 0)
		mount(NULL, where, NULL,
			MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
}

static void mount_system(struct agent *a)
{
	unsigned long plain = MS_NOSUID | MS_NODEV | MS_NOEXEC;

	must_mount("proc", NEW_ROOT "/proc", "proc", plain, "hidepid=2,gid=0");
	must_mount("sysfs", NEW_ROOT "/sys", "sysfs", plain | MS_RDONLY, NULL);
	must_mount("run", NEW_ROOT "/run", "tmpfs", plain, "mode=755,size=1m,nr_inodes=256");
	mount_devices();
	mount_cgroups(a);
}

static void switch_root(void)
{
	/* What the initramfs held is memory that nobody needs again. */
	unlink("/init");
	if (chdir(NEW_ROOT) || mount(".", "/", NULL, MS_MOVE, NULL) || chroot(".") || chdir("/"))
		give_up("switch to the root of the image");
}

static void settle(void)
{
	static const char *const knobs[][2] = {
		{"/proc/sys/kernel/dmesg_restrict", "1"},
		{"/proc/sys/kernel/kptr_restrict", "2"},
		{"/proc/sys/kernel/printk", "1 4 1 7"},
		/* a segment without processes would outlive the exec that made it */
		{"/proc/sys/kernel/shm_rmid_forced", "1"},
		/* a lease on a file or directory would hold up who opens or changes it, the agent
		 * too, for most of a minute */
		{"/proc/sys/fs/leases-enable", "0"},
		{"/proc/sys/fs/lease-break-time", "1"},
		{"/proc/sys/fs/protected_symlinks", "1"},
		{"/proc/sys/fs/protected_hardlinks", "1"},
		{"/proc/sys/fs/protected_fifos", "2"},
		{"/proc/sys/fs/protected_regular", "2"},
		/* Memory is promised freely and the cgroup holds the limit: a program that takes
		 * too much meets the memory limit, not an error or a signal of another kind. */
		{"/proc/sys/vm/overcommit_memory", "1"},
	};

	for (size_t i = 0; i < sizeof(knobs) / sizeof(*knobs); i++)
		write_text(knobs[i][0], knobs[i][1]);
	if (sethostname("sandbox", strlen("sandbox")))
		perror("sealmark-agent: host name");
	if (mkdir("/workspace", 0755) == 0 && chown("/workspace", USER_ID, USER_ID))
		give_up("/workspace");
}

static void loopback_up(void)
{
	struct ifreq request = {.ifr_name = "lo", .ifr_flags = IFF_UP};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (ioctl(fd, SIOCSIFFLAGS, &request))
		perror("sealmark-agent: loopback");
	close(fd);
}

/* From linux/sched/types.h, which musl's headers do not have. */
struct scheduling {
	uint32_t size, policy;
	uint64_t flags;
	int32_t nice;
	uint32_t priority;
	uint64_t runtime, deadline, period;
};
#define SCHEDULE_NORMAL        0u
#define SCHEDULE_RESET_ON_FORK 1u

/* Of the guest's processes this one runs first, and nobody may look into it. Not by much: the
 * kernel's own workers carry its bytes at ordinary priority, and the execs are already held at one
 * process' weight by their cgroups. (Its children start as ordinary ones without being told: reset
 * on fork. The OOM killer spares PID 1.) */
static void take_precedence(void)
{
	struct rlimit files = {16384, 16384};
	struct scheduling first = {.size = sizeof(first),
		.policy = SCHEDULE_NORMAL,
		.flags = SCHEDULE_RESET_ON_FORK,
		.nice = -5};

	setrlimit(RLIMIT_NOFILE, &files);
	if (syscall(SYS_sched_setattr, 0, &first, 0))
		perror("sealmark-agent: precedence");
	prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
	if (setgroups(0, NULL))
		give_up("groups");
	if (child_capabilities())
		give_up("capabilities");
	clearenv();
	/* without this, ctrl-alt-del from a terminal reboots at once */
	reboot(RB_DISABLE_CAD);
}

static int connect_host(uint32_t port)
{
	struct vsock_address address = {.family = AF_VSOCK, .port = port, .cid = VSOCK_HOST};
	int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)))
		give_up("no channel to the host");
	return fd;
}

int boot_machine(struct agent *a)
{
	uint32_t port = setting("sm_port", WIRE_VSOCK_PORT);

	first_devices();
	mount_image();
	mount_root(a);
	mount_system(a);
	switch_root();
	settle();
	loopback_up();
	take_precedence();
	a->is_guest = true;
	return connect_host(port);
}
