package gomlx

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// polynomial is a dim as RLX knows one: integer coefficients of products of symbols, which are written "s0*s1"; that of
// "" is a number. nil is no dim.
type polynomial map[string]int

func number(n int) polynomial { return polynomial{"": n} }

func (p polynomial) plus(q polynomial) polynomial {
	if p == nil || q == nil {
		return nil
	}
	sum := maps.Clone(p)
	for product, n := range q {
		sum[product] += n
	}
	return sum
}

func (p polynomial) times(q polynomial) polynomial {
	if p == nil || q == nil {
		return nil
	}
	all := polynomial{}
	for first, m := range p {
		for second, n := range q {
			all[product(first, second)] += m * n
		}
	}
	return all
}

// product joins the factors of two products, in order.
func product(first, second string) string {
	var factors []string
	for _, each := range []string{first, second} {
		if each != "" {
			factors = append(factors, strings.Split(each, "*")...)
		}
	}
	slices.Sort(factors)
	return strings.Join(factors, "*")
}

// String writes the polynomial as RLX's text has it.
func (p polynomial) String() string {
	var terms []string
	for _, each := range slices.Sorted(maps.Keys(p)) {
		switch n := p[each]; {
		case n == 0:
		case each == "":
			terms = append(terms, strconv.Itoa(n))
		case n == 1:
			terms = append(terms, each)
		default:
			terms = append(terms, strconv.Itoa(n)+"*"+each)
		}
	}
	if len(terms) == 0 {
		return "0"
	}
	return strings.Join(terms, "+")
}

// over divides by a single product, exactly; nil where that cannot be done.
func (p polynomial) over(q polynomial) polynomial {
	if p == nil {
		return nil
	}
	var divisor string
	by := 0
	for each, n := range q {
		if n != 0 {
			if by != 0 {
				return nil
			}
			divisor, by = each, n
		}
	}
	if by == 0 {
		return nil
	}
	all := polynomial{}
	for each, n := range p {
		if n == 0 {
			continue
		}
		factors := strings.Split(each, "*")
		if divisor != "" {
			for _, gone := range strings.Split(divisor, "*") {
				at := slices.Index(factors, gone)
				if at < 0 {
					return nil
				}
				factors = slices.Delete(factors, at, at+1)
			}
		}
		if n%by != 0 {
			return nil
		}
		all[strings.Join(factors, "*")] += n / by
	}
	return all
}
