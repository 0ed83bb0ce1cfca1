/* Two to the 26th lines out of few. */
#define A(x) x x x x x x x x x x x x x x x x
#define B(x) A(A(A(A(A(A(x))))))
const char *text = B("0123456789");

int main(void)
{
	return 0;
}
