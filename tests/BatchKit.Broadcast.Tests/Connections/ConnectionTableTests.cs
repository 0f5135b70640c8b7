using System.Net;
using BatchKit.Broadcast.Connections;

namespace BatchKit.Broadcast.Tests.Connections;

public sealed class ConnectionTableTests
{
    private static readonly IPAddress Address = IPAddress.Parse("192.0.2.1");

    [Fact]
    public void Handles_name_their_node_and_are_never_used_twice_whatever_the_clock_says()
    {
        const int restarts = 100;

        // None of them has a clock: it is as if each process started in the same moment.
        var handles = Enumerable.Range(0, restarts).Select(_ => Table(new BroadcastOptions()))
            .SelectMany(table => Enumerable.Range(0, 1000).Select(_ => table.NextHandle())).ToArray();

        Assert.All(handles, handle => Assert.Equal((7, true), (handle.Node, handle.IsConnection)));
        Assert.Equal(handles.Length, handles.Distinct().Count());
    }

    [Fact]
    public void There_are_as_many_places_as_the_limit_says()
    {
        var table = Table(new BroadcastOptions { MaxConnections = 2 });

        bool[] taken = [table.TryTakePlace(Address), table.TryTakePlace(null), table.TryTakePlace(Address)];
        table.ReleasePlace(Address);
        var takenAgain = table.TryTakePlace(null);

        Assert.Equal([true, true, false], taken);
        Assert.True(takenAgain);
        Assert.Equal(2, table.Places);
    }

    [Theory]
    [InlineData("192.0.2.1", "192.0.2.1", false)]
    [InlineData("192.0.2.1", "::ffff:192.0.2.1", false)]
    [InlineData("192.0.2.1", "192.0.2.2", true)]
    [InlineData("2001:db8::1", "2001:db8::ffff:1", false)]
    [InlineData("2001:db8::1", "2001:db8:0:1::1", true)]
    public void An_address_has_so_many_places_and_an_ipv6_network_counts_as_one(string first, string second, bool hasPlace)
    {
        var table = Table(new BroadcastOptions { MaxConnectionsPerAddress = 1 });
        table.TryTakePlace(IPAddress.Parse(first));

        var taken = table.TryTakePlace(IPAddress.Parse(second));

        Assert.Equal(hasPlace, taken);
        Assert.Equal(hasPlace ? 2 : 1, table.Places);
    }

    [Theory]
    [InlineData(100_000, 2000)]
    [InlineData(1000, 20)]
    [InlineData(5, 5)]
    public void By_default_an_address_has_a_small_share_of_all_places(int maxConnections, int places)
    {
        var table = Table(new BroadcastOptions { MaxConnections = maxConnections });

        var taken = Enumerable.Range(0, maxConnections).TakeWhile(_ => table.TryTakePlace(Address)).Count();

        Assert.Equal(places, taken);
        Assert.Equal(places < maxConnections, table.TryTakePlace(IPAddress.Parse("192.0.2.2")));
    }

    [Fact]
    public void A_handler_that_outlives_its_connection_keeps_its_address_and_counts_toward_a_limit()
    {
        var table = Table(new BroadcastOptions { MaxConnections = 10, MaxConnectionsPerAddress = 1, MaxLingeringHandlers = 2 });
        var (first, second, third) = (new ClientPlace(table), new ClientPlace(table), new ClientPlace(table));
        first.TryTake(Address);
        first.Linger();

        var (isSameTaken, isOtherTaken) = (second.TryTake(Address), second.TryTake(IPAddress.Parse("192.0.2.2")));
        second.Linger();
        var isThirdTaken = third.TryTake(IPAddress.Parse("192.0.2.3"));
        first.Dispose();
        var isThirdTakenLater = third.TryTake(Address);

        Assert.Equal((false, true, false, true), (isSameTaken, isOtherTaken, isThirdTaken, isThirdTakenLater));
        Assert.Equal((1, 1), (table.Places, table.Lingering));
    }

    [Fact]
    public async Task Places_are_exact_when_taken_and_given_back_side_by_side()
    {
        const int limit = 10;
        var table = Table(new BroadcastOptions { MaxConnectionsPerAddress = limit });
        var (most, now) = (0, 0);

        await Task.WhenAll(Enumerable.Range(0, 4).Select(_ => Task.Run(() =>
        {
            for (var turn = 0; turn < 20_000; turn++)
            {
                if (!table.TryTakePlace(Address))
                    continue;
                var taken = Interlocked.Increment(ref now);
                if (taken > Volatile.Read(ref most))
                    Interlocked.Exchange(ref most, taken);
                Interlocked.Decrement(ref now);
                table.ReleasePlace(Address);
            }
        }))).WithinDeadline();

        Assert.InRange(most, 1, limit);
        Assert.Equal((0, 0), (table.Places, table.Addresses));
        Assert.All(Enumerable.Range(0, limit), _ => Assert.True(table.TryTakePlace(Address)));
        Assert.False(table.TryTakePlace(Address));
    }

    [Fact]
    public async Task A_refusal_by_address_turns_away_no_client_of_another_address()
    {
        var table = Table(new BroadcastOptions { MaxConnections = 2, MaxConnectionsPerAddress = 1 });
        table.TryTakePlace(Address);
        using var stop = new CancellationTokenSource();
        var refused = Task.Run(() =>
        {
            while (!stop.IsCancellationRequested)
                Assert.False(table.TryTakePlace(Address));
        });

        var other = IPAddress.Parse("192.0.2.2");
        var taken = 0;
        for (var turn = 0; turn < 200_000; turn++)
        {
            if (!table.TryTakePlace(other))
                continue;
            taken++;
            table.ReleasePlace(other);
        }

        await stop.CancelAsync();
        await refused.WithinDeadline();
        Assert.Equal(200_000, taken);
    }

    [Fact]
    public void A_place_is_kept_while_its_address_becomes_known()
    {
        var table = Table(new BroadcastOptions { MaxConnections = 2, MaxConnectionsPerAddress = 1 });
        using (var first = new ClientPlace(table))
        using (var second = new ClientPlace(table))
        {
            bool[] taken = [first.TryTake(null), second.TryTake(null), first.TryAssign(Address), second.TryAssign(Address)];

            Assert.Equal([true, true, true, false], taken);
            Assert.Equal((2, 1), (table.Places, table.Addresses));
        }

        Assert.Equal((0, 0), (table.Places, table.Addresses));
    }

    private static ConnectionTable Table(BroadcastOptions options) => new(options, new NodeNumber(7));
}
