/* SPDX-License-Identifier: Apache-2.0 - parsers of option values; each message says what is right.
 */
#include "base/cleanup.h"
#include "base/text.h"
#include "cli/cli.h"

#include <errno.h>
#include <string.h>

int cli_flag(const struct cli_option *option, const char *text, void *field, struct error *err)
{
	*(bool *)field = true;
	return 0;
}

int cli_text(const struct cli_option *option, const char *text, void *field, struct error *err)
{
	if (!*text)
		return error_set(err, -EINVAL, "is empty: give %s, as %s", option->argument,
			option->example);
	*(const char **)field = text;
	return 0;
}

void cli_write_size(char *out, size_t size, uint64_t bytes)
{
	static const char *const units[] = {"", "k", "M", "G", "T"};
	size_t i = 0;

	while (i + 1 < ARRAY_SIZE(units) && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		i++;
	}
	text_format(out, size, "%llu%s", (unsigned long long)bytes, units[i]);
}

void cli_write_duration(char *out, size_t size, uint64_t ms)
{
	static const struct {
		uint64_t ms;
		const char *name;
	} units[] = {{3600000, "h"}, {60000, "m"}, {1000, "s"}, {1, "ms"}};
	size_t i = 0;

	while (ms % units[i].ms != 0)
		i++;
	text_format(out, size, "%llu%s", (unsigned long long)(ms / units[i].ms),
		ms ? units[i].name : "s");
}

static void write_number(char *out, size_t size, uint64_t value, char kind)
{
	if (kind == 'b')
		cli_write_size(out, size, value);
	else if (kind == 't')
		cli_write_duration(out, size, value);
	else
		text_format(out, size, "%llu", (unsigned long long)value);
}

/* The same three complaints for every kind of number; scale turns least and most into base units.
 */
static int check_number(const struct cli_option *option, const char *text, int r, uint64_t value,
	char kind, uint64_t scale, struct error *err)
{
	char least[32], most[32], range[80];
	uint64_t low = option->least * scale, high = option->most * scale;
	const char *what = kind == 'b'   ? "a size such as 64k, 256M or 2G"
			   : kind == 't' ? "a time such as 500ms, 10s or 2m"
					 : "a whole number";

	if (!r && value >= low && (!high || value <= high))
		return 0;
	if (r && r != -ERANGE)
		return error_set(
			err, -EINVAL, "\"%.80s\" is not %s: try %s", text, what, option->example);
	write_number(least, sizeof(least), low, kind);
	write_number(most, sizeof(most), high, kind);
	if (high)
		text_format(range, sizeof(range), "from %s to %s", least, most);
	else
		text_format(range, sizeof(range), "%s or more", least);
	return error_set(err, -EINVAL, "%.80s is out of range: must be %s, as %s", text,
		r == -ERANGE && !high ? "smaller" : range, option->example);
}

int cli_u32(const struct cli_option *option, const char *text, void *field, struct error *err)
{
	uint32_t value = 0;
	int r = text_u32(text, &value);

	r = check_number(option, text, r, value, 'n', 1, err);
	if (!r)
		*(uint32_t *)field = value;
	return r;
}

int cli_mib(const struct cli_option *option, const char *text, void *field, struct error *err)
{
	uint64_t value = 0;
	int r = text_bytes(text, UINT64_C(1) << 20, &value);

	if (!r && value >> 20 > UINT32_MAX)
		r = -ERANGE;
	r = check_number(option, text, r, value, 'b', UINT64_C(1) << 20, err);
	if (!r)
		*(uint32_t *)field = (uint32_t)(value >> 20);
	return r;
}

int cli_bytes(const struct cli_option *option, const char *text, void *field, struct error *err)
{
	uint64_t value = 0;
	int r = text_bytes(text, 1, &value);

	r = check_number(option, text, r, value, 'b', 1, err);
	if (!r)
		*(uint64_t *)field = value;
	return r;
}

int cli_duration_ms(
	const struct cli_option *option, const char *text, void *field, struct error *err)
{
	int64_t value = 0;
	int r = text_duration_ms(text, &value);

	r = check_number(option, text, r, (uint64_t)value, 't', 1, err);
	if (!r)
		*(int64_t *)field = value;
	return r;
}

int cli_texts(const struct cli_option *option, const char *text, void *field, struct error *err)
{
	struct cli_texts *texts = field;
	const char **more = reallocarray(texts->items, texts->count + 2, sizeof(more[0]));

	if (!more)
		return error_sys(err, -ENOMEM, "%.80s", text);
	texts->items = more;
	texts->items[texts->count++] = text;
	texts->items[texts->count] = NULL;
	return 0;
}
