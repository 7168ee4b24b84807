"""Resources: named contents in revisions that stay; routes, tasks and analysis templates are kinds of them."""
