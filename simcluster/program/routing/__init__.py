"""A Program with the sizes that unequal routing to experts gives: dynamic shapes per rank."""
