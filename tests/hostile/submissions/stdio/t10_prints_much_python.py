# All answers there may be.
a, b = map(int, input().split())
for number in range(3000):
    print(number)
