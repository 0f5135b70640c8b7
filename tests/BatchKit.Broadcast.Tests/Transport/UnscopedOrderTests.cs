using BatchKit.Broadcast.Tests.Support;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Transport;

/// <summary>With one partition, what is written outside scopes reaches a client in the order of the writes, across handles too.</summary>
public sealed class UnscopedOrderTests : IAsyncDisposable
{
    private static readonly OutputHandle Room = OutputHandle.Named("room");
    private static readonly OutputHandle Hall = OutputHandle.Named("hall");

    private readonly BroadcastTransport _transport = new();

    public ValueTask DisposeAsync() => _transport.DisposeAsync();

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task A_players_line_stays_between_the_rooms_lines_that_were_written_around_it(bool sendsWithoutBlocking)
    {
        var player = new FakeClient(_transport).Join("room");
        var bystander = new FakeClient(_transport).Join("room");

        await WhileASendIsUnderWayAsync(sendsWithoutBlocking, output =>
        {
            output.Write(Room, "a");
            output.Write(player.Handle, "X");
            output.Write(Room, "b");
        });

        Assert.Equal(("aXb", "ab"), (player.Text, bystander.Text));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public async Task Many_lines_of_a_room_and_its_players_keep_their_order(bool sendsWithoutBlocking)
    {
        const int rounds = 50;
        var players = Enumerable.Range(0, 3).Select(_ => new FakeClient(_transport).Join("room")).ToArray();

        await WhileASendIsUnderWayAsync(sendsWithoutBlocking, output =>
        {
            for (var round = 0; round < rounds; round++)
            {
                output.Write(Room, $"r{round} ");
                foreach (var player in players)
                    output.Write(player.Handle, $"p{round} ");
            }
        });

        var expected = string.Concat(Enumerable.Range(0, rounds).Select(round => $"r{round} p{round} "));
        Assert.All(players, player => Assert.Equal(expected, player.Text));
    }

    [Theory]
    [InlineData(true, true)]
    [InlineData(true, false)]
    [InlineData(false, true)]
    [InlineData(false, false)]
    public async Task A_group_is_joined_or_left_before_what_is_written_to_it_afterwards(bool joins, bool sendsWithoutBlocking)
    {
        var member = new FakeClient(_transport).Join("hall");
        var client = joins ? new FakeClient(_transport) : new FakeClient(_transport).Join("hall");

        await WhileASendIsUnderWayAsync(sendsWithoutBlocking, output =>
        {
            output.Write(Hall, "before ");
            output.Write(client.Handle, joins ? ControlMessage.JoinGroup("hall") : ControlMessage.LeaveGroup("hall"));
            output.Write(Hall, "after");
        });

        Assert.Equal(("before after", joins ? "after" : "before "), (member.Text, client.Text));
    }

    private async Task WhileASendIsUnderWayAsync(bool sendsWithoutBlocking, Action<IOutputBuffer> write)
    {
        var hop = new ScriptedTransport(_transport, sendsWithoutBlocking);
        var first = hop.Stall();
        await using var output = new OutputBuffer(hop);
        output.Write(new FakeClient(_transport).Handle, "is sent meanwhile");
        await first.EnteredAsync();

        write(output);
        first.Release();

        await output.FlushAsync().WithinDeadline();
    }
}
