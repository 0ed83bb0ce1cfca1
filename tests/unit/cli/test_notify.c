/* SPDX-License-Identifier: Apache-2.0 - what the service manager hears, and who else does not. */
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/notify.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* The manager's socket at `address`; a name of the kernel's choice when `size` is that of none. */
static int listen_at(struct sockaddr_un *address, socklen_t *size)
{
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)address, *size), 0);
	*size = sizeof(*address);
	assert_int_equal(getsockname(fd, (struct sockaddr *)address, size), 0);
	return fd;
}

static void assert_heard(int fd, const char *words)
{
	char got[64] = "";
	ssize_t n = recv(fd, got, sizeof(got) - 1, 0); /* a datagram is there once it is sent */

	assert_int_equal(n, strlen(words));
	assert_string_equal(got, words);
}

static void speaks_to_a_path(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(address);
	char directory[] = "/tmp/notify-XXXXXX";
	struct notify n;

	assert_non_null(mkdtemp(directory));
	text_format(address.sun_path, sizeof(address.sun_path), "%s/socket", directory);
	cleanup_close int fd = listen_at(&address, &size);
	setenv("NOTIFY_SOCKET", address.sun_path, 1);
	notify_init(&n);
	assert_null(getenv("NOTIFY_SOCKET")); /* machines and helpers do not inherit it */
	notify_say(&n, "READY=1");
	notify_say(&n, "STOPPING=1");
	assert_heard(fd, "READY=1");
	assert_heard(fd, "STOPPING=1");
	unlink(address.sun_path);
	rmdir(directory);
}

static void speaks_to_an_abstract_name(void **state)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t size = sizeof(sa_family_t);
	cleanup_close int fd = listen_at(&address, &size);
	size_t length = size - offsetof(struct sockaddr_un, sun_path);
	char name[sizeof(address.sun_path) + 1] = "";
	struct notify n;

	memcpy(name, address.sun_path, length);
	name[0] = '@';
	setenv("NOTIFY_SOCKET", name, 1);
	notify_init(&n);
	notify_say(&n, "READY=1");
	assert_heard(fd, "READY=1");
}

static void says_nothing_to_nobody(void **state)
{
	static const char *const names[] = {"", "/", "relative", "vsock:2:1234"};
	char longest[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 2];
	struct notify n;

	unsetenv("NOTIFY_SOCKET");
	notify_init(&n);
	assert_int_equal(n.size, 0);
	notify_say(&n, "READY=1");
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		setenv("NOTIFY_SOCKET", names[i], 1);
		notify_init(&n);
		assert_int_equal(n.size, 0);
	}
	memset(longest, 'a', sizeof(longest) - 1);
	longest[0] = '/';
	longest[sizeof(longest) - 1] = 0;
	setenv("NOTIFY_SOCKET", longest, 1);
	notify_init(&n);
	assert_int_equal(n.size, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(speaks_to_a_path),
		cmocka_unit_test(speaks_to_an_abstract_name),
		cmocka_unit_test(says_nothing_to_nobody),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
