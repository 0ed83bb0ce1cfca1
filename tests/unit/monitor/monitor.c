/* SPDX-License-Identifier: Apache-2.0 - real monitors for tests, see monitor.h. */
#include "monitor.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/text.h"
#include "monitor/config.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

static int config_pipe(const struct home *home, const char *more)
{
	json_t *config = json_pack("{ss ss ss ss ss si si si si si si si}", "id", home->id,
		"engine", "fake", "home", home->path, "script", home->script, "require_isolation",
		"none", "memory_mib", 64, "disk_mib", 16, "files_most", 1024, "lease_ms", 60000,
		"start_timeout_ms", 20000, "patience_ms", 20000, "cpu", -1);
	json_t *own = more ? json_loads(more, 0, NULL) : NULL;
	int pair[2];

	assert_non_null(config);
	if (more)
		assert_int_equal(json_object_update(config, own), 0);
	cleanup_free char *text = json_dumps(config, 0);
	json_decref(config);
	json_decref(own);
	assert_int_equal(pipe(pair), 0);
	assert_int_equal(path_write_fd(pair[1], text, strlen(text)), 0);
	close(pair[1]);
	return pair[0];
}

void monitor_start(struct host *h, struct home *home, const char *script, const char *more)
{
	int pair[2], config;

	*h = (struct host){0};
	home_script(home, script);
	config = config_pipe(home, more);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
	h->pid = fork();
	if (h->pid == 0) {
		if (dup2(pair[1], 100) < 0 || dup2(config, 101) < 0 ||
			dup2(100, MONITOR_OWNER_FD) < 0 || dup2(101, MONITOR_CONFIG_FD) < 0)
			_exit(126);
		close(100);
		close(101);
		execl(MONITOR, "sealmark-monitor", (char *)NULL);
		_exit(127);
	}
	close(pair[1]);
	close(config);
	h->fd = pair[0];
}

void monitor_ready(struct host *h, struct home *home, const char *script, const char *more)
{
	monitor_start(h, home, script, more);
	host_expect(h, WIRE_MON_READY, 0);
}

void monitor_connect(struct host *h, struct home *home)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};

	*h = (struct host){0};
	text_format(address.sun_path, sizeof(address.sun_path), "%s/sandboxes/%s/control.sock",
		home->path, home->id);
	h->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_true(h->fd >= 0);
	assert_int_equal(connect(h->fd, (struct sockaddr *)&address, sizeof(address)), 0);
}

void monitor_attach(struct host *h, struct home *home)
{
	monitor_connect(h, home);
	host_expect(h, WIRE_MON_READY, 0);
}

void monitor_detach(struct host *h)
{
	close(h->fd);
	buffer_fini(&h->in);
}

void monitor_expect_stopped(
	struct host *h, enum sandbox_stop_reason reason, const char *detail_part)
{
	struct wire_mon_stopped m;

	do {
		assert_int_equal(host_next(h), 1);
	} while (h->frame.type != WIRE_MON_STOPPED);
	assert_int_equal(wire_get_mon_stopped(h->frame.payload, h->frame.length, &m), 0);
	if (m.reason != reason || !strstr(m.detail.text, detail_part))
		fail_msg("stopped for %u (not %u): %s (not %s)", m.reason, (unsigned)reason,
			m.detail.text, detail_part);
	assert_int_equal(host_next(h), 0);
}

void monitor_expect_closed(struct host *h)
{
	while (host_next(h) == 1)
		assert_int_not_equal(h->frame.type, WIRE_MON_STOPPED);
	monitor_detach(h);
}

void monitor_ping(struct host *h, uint32_t stream)
{
	uint8_t frame[32];
	int n = wire_put_ping(frame, sizeof(frame), stream, 0, &(struct wire_ping){.token = 7});

	host_send(h, frame, n);
	host_expect(h, WIRE_PONG, stream);
}

void monitor_quote(struct buffer *script, const uint8_t *frame, int size)
{
	assert_true(size > 0);
	buffer_add_text(script, "\"");
	for (int i = 0; i < size; i++)
		buffer_printf(script, "\\x%02x", frame[i]);
	buffer_add_text(script, "\"");
}
