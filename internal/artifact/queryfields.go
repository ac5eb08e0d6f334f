package artifact

// queryFields describes the columns of queries.csv, one row a query.
var queryFields = map[string]dpField{}
