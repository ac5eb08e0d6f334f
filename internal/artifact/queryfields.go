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
	"backend":         {Type: "string", Description: "node that sent that answer, by the frame's MAC"},
	"duplicates":      {Type: "integer", Unit: "answers", Description: "further answers to the query"},
	"query_ip_bytes":  {Type: "integer", Unit: "B", Description: "IP bytes of the query"},
	"answer_ip_bytes": {Type: "integer", Unit: "B", Description: "IP bytes of that answer"},
}
