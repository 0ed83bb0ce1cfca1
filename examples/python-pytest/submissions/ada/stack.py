class Stack:
    def __init__(self):
        self.items = []

    def push(self, item):
        self.items.append(item)

    def pop(self):
        if not self.items:
            raise IndexError("the stack is empty")
        return self.items.pop()

    def __len__(self):
        return len(self.items)

    def show(self):
        for item in reversed(self.items):
            print(item)


PAIRS = {")": "(", "]": "[", "}": "{"}


def balanced(text):
    stack = Stack()
    for sign in text:
        if sign in PAIRS.values():
            stack.push(sign)
        elif not len(stack) or stack.pop() != PAIRS[sign]:
            return False
    return len(stack) == 0
