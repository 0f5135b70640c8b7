using System.Text;
using BatchKit.Testing;
using MudServer.Game;

namespace MudServer.Tests.Game;

public sealed class AwayPlayersTests
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);

    private readonly ManualTimeProvider _clock = new();
    private readonly GameInput _input;
    private readonly AwayPlayers _away;
    private readonly Player _ana = SomePlayer(14, "Ana");

    public AwayPlayersTests()
    {
        _input = new GameInput(discardsWhenStopped: false, _clock);
        _away = new AwayPlayers(_input, new GameSettings(IsBuffered: true, ClosesConnections: false, "RabbitMQ", FirstNode: 1, Limit), _clock);
    }

    [Fact]
    public void What_was_written_meanwhile_is_kept_in_order_and_without_prompts()
    {
        _away.Add(_ana, "1-A");
        Keep("one");
        _away.Keep(_ana.Session.Away!, "> "u8, MessageHeader.Prompt);
        Keep("two");

        Assert.True(_away.TryGet("1-a", out var found));
        Assert.Same(_ana, found);
        Assert.Equal(["one", "two"], _away.Return(_ana).Lines.Select(line => Encoding.UTF8.GetString(line.Payload)));
        Assert.Equal(new AwayStatistics(Players: 0, WaitingBytes: 0, ReturnedPlayers: 1, LostPlayers: 0, LostLines: 0), _away.Statistics);
        Assert.False(_away.TryGet("1-A", out _));
    }

    [Fact]
    public void Lines_above_a_players_limit_are_dropped_and_counted_and_others_still_have_theirs()
    {
        var bob = SomePlayer(15, "Bob");
        _away.Add(_ana, "1-A");
        _away.Add(bob, "1-B");
        var line = new string('x', 1000);

        for (var number = 0; number < 300; number++)
            Keep(line);
        _away.Keep(bob.Session.Away!, "hello"u8, header: null);

        var ana = _away.Return(_ana);
        Assert.Equal(300, ana.Lines.Count + ana.LostLines);
        Assert.InRange(ana.LostLines, 1, 299);
        Assert.Equal(ana.LostLines, _away.Statistics.LostLines);
        Assert.Single(_away.Return(bob).Lines);
    }

    [Fact]
    public async Task A_player_that_is_away_for_too_long_is_lost_with_its_lines()
    {
        _away.Add(_ana, "1-A");
        Keep("one");
        _clock.Advance(Limit - TimeSpan.FromSeconds(1));
        Assert.Empty(_away.TakeLost());

        _clock.Advance(TimeSpan.FromSeconds(1));

        _input.Complete();
        Assert.All(await _input.ReadAllAsync().ToListAsync(), batch => Assert.Equal(InputKind.Check, Assert.Single(batch.Messages).Kind));
        Assert.Equal([_ana], _away.TakeLost());
        Assert.Equal(new AwayStatistics(Players: 0, WaitingBytes: 0, ReturnedPlayers: 0, LostPlayers: 1, LostLines: 1), _away.Statistics);
    }

    [Theory]
    [InlineData("resume 2-ABC", 2)]
    [InlineData("  RESUME  11-ABC ", 11)]
    [InlineData("resume ABC", 0)]
    [InlineData("resume 2-ABC please", 0)]
    [InlineData("connect Ana", 0)]
    public void A_token_names_its_shard(string line, int shard) => Assert.Equal(shard, AwayPlayers.ReadShard(line));

    private static Player SomePlayer(int id, string name)
    {
        var session = new Session(OutputHandle.Connection(2, id), isBuffered: true, connectedAt: 0);
        return session.Player = new Player(id, name, session, LanternIsle.Create()[0]);
    }

    private void Keep(string text) => _away.Keep(_ana.Session.Away!, Encoding.UTF8.GetBytes(text), header: null);
}
