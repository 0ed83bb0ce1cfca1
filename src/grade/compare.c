/* SPDX-License-Identifier: Apache-2.0 - the compare rules, see compare.h. */
#include "grade/compare.h"

#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SHOWN_MAX  60  /* bytes of a differing piece in the detail */
#define NUMBER_MAX 400 /* characters of a token that may be a number */

struct span {
	const uint8_t *at, *end;
};

const char *compare_name(enum compare_rule rule)
{
	static const char *const names[] = {"exact", "lines", "tokens", "float"};

	return rule <= COMPARE_FLOAT ? names[rule] : "?";
}

static bool is_space(uint8_t c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static size_t span_length(struct span s)
{
	return (size_t)(s.end - s.at);
}

static bool span_equal(struct span a, struct span b)
{
	return span_length(a) == span_length(b) &&
	       (a.at == a.end || memcmp(a.at, b.at, span_length(a)) == 0);
}

/* a piece in quotes, cut, or `nothing` when there is none */
static void show(struct buffer *out, const struct span *piece, const char *nothing)
{
	size_t n = piece ? span_length(*piece) : 0;

	if (!piece) {
		buffer_add_text(out, nothing);
		return;
	}
	if (n > SHOWN_MAX) { /* not within a character */
		n = SHOWN_MAX;
		while (n > SHOWN_MAX - 4 && (piece->at[n] & 0xc0) == 0x80)
			n--;
	}
	buffer_add_text(out, "\"");
	text_add_safe(out, piece->at, n, false);
	buffer_printf(out, "\"%s", n < span_length(*piece) ? "…" : "");
}

static bool differ(struct buffer *detail, const char *what, size_t number,
	const struct span *expected, const struct span *got)
{
	if (detail) {
		buffer_printf(detail, "%s %zu: expected ", what, number);
		show(detail, expected, "the end of the output");
		buffer_add_text(detail, ", got ");
		show(detail, got, "the end of the output");
	}
	return false;
}

/* --- exact --- */

static bool compare_exact(struct span expected, struct span got, struct buffer *detail)
{
	size_t n =
		span_length(expected) < span_length(got) ? span_length(expected) : span_length(got);
	size_t same = 0;

	if (span_equal(expected, got))
		return true;
	while (same < n && expected.at[same] == got.at[same])
		same++;
	expected.at += same;
	got.at += same;
	return differ(detail, "byte", same + 1, expected.at < expected.end ? &expected : NULL,
		got.at < got.end ? &got : NULL);
}

/* --- lines --- */

/* all white space off the end: of the whole text this also drops its empty last lines */
static struct span trim(struct span s)
{
	while (s.end > s.at && is_space(s.end[-1]))
		s.end--;
	return s;
}

/* the next line, its end trimmed; `rest` moves behind it */
static struct span next_line(struct span *rest)
{
	const uint8_t *newline = memchr(rest->at, '\n', span_length(*rest));
	struct span line = {rest->at, newline ? newline : rest->end};

	rest->at = newline ? newline + 1 : rest->end;
	return trim(line);
}

static bool compare_lines(struct span expected, struct span got, struct buffer *detail)
{
	expected = trim(expected);
	got = trim(got);
	for (size_t number = 1; expected.at < expected.end || got.at < got.end; number++) {
		struct span a, b;
		bool has_a = expected.at < expected.end, has_b = got.at < got.end;

		if (has_a)
			a = next_line(&expected);
		if (has_b)
			b = next_line(&got);
		if (!has_a || !has_b || !span_equal(a, b))
			return differ(detail, "line", number, has_a ? &a : NULL, has_b ? &b : NULL);
	}
	return true;
}

/* --- tokens and numbers --- */

static bool next_token(struct span *rest, struct span *token)
{
	while (rest->at < rest->end && is_space(*rest->at))
		rest->at++;
	token->at = rest->at;
	while (rest->at < rest->end && !is_space(*rest->at))
		rest->at++;
	token->end = rest->at;
	return token->at < token->end;
}

static size_t digits(const char *p)
{
	return strspn(p, "0123456789");
}

/* [+-] digits [. digits] [e [+-] digits], or [+-] inf, infinity, nan; whole string */
static bool is_number(const char *p)
{
	size_t whole, part = 0;

	p += *p == '+' || *p == '-';
	if (strcasecmp(p, "inf") == 0 || strcasecmp(p, "infinity") == 0 ||
		strcasecmp(p, "nan") == 0)
		return true;
	whole = digits(p);
	p += whole;
	if (*p == '.') {
		part = digits(++p);
		p += part;
	}
	if (whole + part == 0)
		return false;
	if (*p == 'e' || *p == 'E') {
		p++;
		p += *p == '+' || *p == '-';
		if (digits(p) == 0)
			return false;
		p += digits(p);
	}
	return !*p;
}

static bool number(struct span token, double *out)
{
	char text[NUMBER_MAX + 1];
	size_t n = span_length(token);

	if (n > NUMBER_MAX || memchr(token.at, 0, n))
		return false;
	memcpy(text, token.at, n);
	text[n] = 0;
	if (!is_number(text))
		return false;
	*out = strtod(text, NULL);
	return true;
}

static bool number_equal(const struct compare *rule, double expected, double got)
{
	double difference;

	if (isnan(expected) || isnan(got))
		return rule->nan_equal && isnan(expected) && isnan(got);
	if (isinf(expected) || isinf(got))
		return expected == got;
	difference = fabs(expected - got);
	return difference <= rule->absolute || difference <= rule->relative * fabs(expected);
}

static bool token_equal(const struct compare *rule, struct span expected, struct span got)
{
	double x, y;

	if (rule->rule == COMPARE_FLOAT && number(expected, &x) && number(got, &y))
		return number_equal(rule, x, y);
	return span_equal(expected, got);
}

static bool compare_tokens(
	const struct compare *rule, struct span expected, struct span got, struct buffer *detail)
{
	for (size_t n = 1;; n++) {
		struct span a, b;
		bool has_a = next_token(&expected, &a), has_b = next_token(&got, &b);

		if (!has_a && !has_b)
			return true;
		if (!has_a || !has_b || !token_equal(rule, a, b))
			return differ(detail, "word", n, has_a ? &a : NULL, has_b ? &b : NULL);
	}
}

bool compare_output(const struct compare *rule, const void *expected, size_t expected_count,
	const void *got, size_t got_count, struct buffer *detail)
{
	/* an empty buffer may come as NULL, on which no arithmetic is allowed */
	const uint8_t *e = expected_count ? expected : (const void *)"";
	const uint8_t *g = got_count ? got : (const void *)"";
	struct span a = {e, e + expected_count}, b = {g, g + got_count};

	switch (rule->rule) {
	case COMPARE_EXACT:
		return compare_exact(a, b, detail);
	case COMPARE_LINES:
		return compare_lines(a, b, detail);
	case COMPARE_TOKENS:
	case COMPARE_FLOAT:
		return compare_tokens(rule, a, b, detail);
	}
	return false;
}
