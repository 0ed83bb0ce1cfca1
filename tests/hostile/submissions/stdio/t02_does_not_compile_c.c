int main(void)
{
	return add(1, 2
}
