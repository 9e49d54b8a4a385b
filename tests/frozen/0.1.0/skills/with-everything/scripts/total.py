import sys

print(sum(float(line) for line in open(sys.argv[1])))
