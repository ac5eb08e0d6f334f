package artifact

// queryFields describes the columns of queries.csv, one row a query. Package
// load writes the file and decides which columns it has; a test keeps the two
// together.
var queryFields = map[string]dpField{
	"n":               {Type: "integer", Description: "number of the query, from 1, in order of sending"},
	"time":            {Type: "datetime", Format: "any", Description: "when the query passed the client's NIC, UTC, nanoseconds"},
	"client":          {Type: "string", Description: "source address of the query"},
	"port":            {Type: "integer", Description: "source port of the query"},
	"vip":             {Type: "string", Description: "destination address of the query"},
	"protocol":        {Type: "string", Description: "udp or tcp"},
	"id":              {Type: "integer", Description: "DNS id"},
	"name":            {Type: "string", Description: "name asked for, lower case, with final dot"},
	"type":            {Type: "string", Description: "record type asked for"},
	"next_hop":        {Type: "string", Description: "node that the query's frame was sent to, by its MAC"},
	"outcome":         {Type: "string", Description: "ok, bad_rcode, truncated, wrong_data, wrong_source, late or unanswered"},
	"latency_s":       {Type: "number", Unit: "s", Description: "time from the query to the answer that decided the outcome; empty without one"},
	"rcode":           {Type: "string", Description: "rcode of that answer"},
	"source":          {Type: "string", Description: "source address of that answer"},
	"backend":         {Type: "string", Description: "node that sent that answer, by the frame's MAC; by what the answer says where routers or the director hide it"},
	"duplicates":      {Type: "integer", Unit: "answers", Description: "further answers to the query"},
	"query_ip_bytes":  {Type: "integer", Unit: "B", Description: "IP bytes of the query"},
	"answer_ip_bytes": {Type: "integer", Unit: "B", Description: "IP bytes of that answer"},
}

// generatorFields describes the columns of generator.csv, one row a query of
// lvslab's own load generator; package load writes it, too.
var generatorFields = map[string]dpField{
	"n":          {Type: "integer", Description: "place of the query in the list of its process, from 1; rows are in order of their start"},
	"client":     {Type: "string", Description: "source address"},
	"port":       {Type: "integer", Description: "source port, chosen beforehand"},
	"vip":        {Type: "string", Description: "destination address"},
	"protocol":   {Type: "string", Description: "udp or tcp"},
	"id":         {Type: "integer", Description: "DNS id"},
	"name":       {Type: "string", Description: "name asked for, lower case, with final dot"},
	"type":       {Type: "string", Description: "record type asked for"},
	"scheduled":  {Type: "datetime", Format: "any", Description: "when the query was due by its rate, UTC, nanoseconds; empty without a rate"},
	"started":    {Type: "datetime", Format: "any", Description: "when it was begun, with fresh ports over TCP the connection; empty when the load was cut before"},
	"sent":       {Type: "datetime", Format: "any", Description: "right before the query itself was handed to the kernel; empty when it could not be sent"},
	"result":     {Type: "string", Description: "answered, late, timeout, closed (the connection ended first), refused, failed (it could not be sent) or unsent (the load was cut)"},
	"latency_s":  {Type: "number", Unit: "s", Description: "from sent to the first answer in the generator's hands; empty without one"},
	"rcode":      {Type: "string", Description: "rcode of that answer"},
	"truncated":  {Type: "boolean", TrueValues: []string{"true"}, FalseValues: []string{"false"}, Description: "whether it has the TC bit"},
	"source":     {Type: "string", Description: "source address of that answer"},
	"backend":    {Type: "string", Description: "node that sent it, by the source MAC that the generator saw itself or, where that is hidden, by what the answer says; empty when it did not"},
	"duplicates": {Type: "integer", Unit: "answers", Description: "further answers while the socket was open"},
}

// clientFields describes the columns of clients.csv, one row a client of a run that
// has several; package load writes it, too.
var clientFields = map[string]dpField{
	"client":         {Type: "string", Description: "address of the client in the topology"},
	"addresses":      {Type: "string", Description: "its source addresses, separated by ;"},
	"started_s":      {Type: "number", Unit: "s", Description: "its first packet after that of the first client, both as they came to the director, on one clock (without LVS to the backend that is asked); empty when none was seen"},
	"queries_sent":   {Type: "integer", Unit: "queries", Description: "its queries that left its NIC; over the clients the run's"},
	"answers_ok":     {Type: "integer", Unit: "queries", Description: "accepted answers; over the clients the run's"},
	"answers_not_ok": {Type: "integer", Unit: "queries", Description: "answered with another rcode or other data, truncated, from another source or late"},
	"unanswered":     {Type: "integer", Unit: "queries", Description: "queries that left its NIC and have no answer"},
	"batch_s":        {Type: "number", Unit: "s", Description: "as in runs.csv, of this client alone, by its own clock"},
	"resolved_s":     {Type: "number", Unit: "s", Description: "as in runs.csv, of this client alone, by its own clock"},
	"latency_p50_s":  {Type: "number", Unit: "s", Description: "median time from query to answer, over its answers_ok, nearest rank, by its own clock"},
	"source_ports":   {Type: "integer", Unit: "ports", Description: "its source address and port pairs; over the clients the run's"},
	"backends":       {Type: "string", Description: "backend=answers_ok, separated by ;"},
}
