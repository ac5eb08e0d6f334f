// SPDX-License-Identifier: GPL-2.0-or-later
/*
 * A scheduler under the name of wlc that is wrong on purpose: it takes the real
 * server with the fewest connections and does not look at weights, but for 0. A
 * study over weights must notice it.
 */
#include <linux/module.h>
#include <net/ip_vs.h>

static struct ip_vs_dest *planted(struct ip_vs_service *svc,
				  const struct sk_buff *skb,
				  struct ip_vs_iphdr *iph)
{
	struct ip_vs_dest *d, *best = NULL;

	list_for_each_entry_rcu(d, &svc->destinations, n_list) {
		if (d->flags & IP_VS_DEST_F_OVERLOAD)
			continue;
		if (atomic_read(&d->weight) == 0)
			continue;
		if (!best || ip_vs_dest_conn_overhead(d) < ip_vs_dest_conn_overhead(best))
			best = d;
	}
	if (!best)
		ip_vs_scheduler_err(svc, "no destination available");
	return best;
}

static struct ip_vs_scheduler scheduler = {
	.name = "wlc",
	.module = THIS_MODULE,
	.n_list = LIST_HEAD_INIT(scheduler.n_list),
	.schedule = planted,
};

static int __init begin(void)
{
	return register_ip_vs_scheduler(&scheduler);
}

static void __exit end(void)
{
	unregister_ip_vs_scheduler(&scheduler);
	synchronize_rcu(); /* a packet may still be in planted */
}

module_init(begin);
module_exit(end);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("wlc without weights, for a test");
