using System.Text;
using BatchKit.Testing;
using BatchKit.Transports;
using Microsoft.Extensions.Logging.Abstractions;
using MudServer.Game;
using MudServer.Game.Commands;
using MudServer.Softcode;

namespace MudServer.Tests.Support;

/// <summary>The game without sockets: a test sends its input, and is the hop of its output.</summary>
internal sealed class GameAlone : IAsyncDisposable
{
    // It stands still, so that nothing is given up.
    private static readonly ManualTimeProvider Clock = new();

    private readonly StallingHop _hop = new();
    private readonly OutputBuffer _output;
    private readonly GameInput _input = new(discardsWhenStopped: true, Clock);
    private readonly Task _running;
    private long _lines;

    public GameAlone()
    {
        _output = new OutputBuffer(_hop);
        var shards = new Shards(home: 1, count: 1);
        var settings = new GameSettings(IsBuffered: true, ClosesConnections: true, "a script", FirstNode: 1, TimeSpan.FromSeconds(60));
        var world = new World(LanternIsle.Create(), shards);
        var peers = new Peers(world, shards, settings, firstNode: 1, output: null, Clock);
        var away = new AwayPlayers(_input, settings, Clock);
        var output = new GameOutput(_output, away, peers);
        var who = new WhoList(world, Clock);
        var comparison = new Comparison(_output, settings, static () => Task.FromResult<ComparisonHop?>(null), Clock);
        var interpreter = new Interpreter(world, output, IslandCommands.Create(world, who, comparison), SoftcodeLimits.Standard, new Random(1), Clock);
        var slowAnswers = new SlowAnswers(_input, _output, Clock, NullLogger<SlowAnswers>.Instance);
        var loop = new GameLoop(
            _input, _output, output, world, new Lobby(world, output, who, shards, away, new Passwords(output, _input)), interpreter, settings, shards, peers,
            static _ => Task.CompletedTask, away, slowAnswers, Clock, NullLogger<GameLoop>.Instance);
        _running = Task.Run(loop.RunAsync);
    }

    /// <summary>The lines of each send that has begun, in order.</summary>
    public IReadOnlyList<string[]> Sends => _hop.Sends;

    /// <summary>Stalls the next send with a line that begins so.</summary>
    /// <returns>A task that completes when the send is there, and its release.</returns>
    public (Task Begun, TaskCompletionSource Released) StallAt(string text) => _hop.StallAt(text);

    /// <summary>A player types lines.</summary>
    public async Task TypeAsync(OutputHandle player, params string[] lines)
    {
        foreach (var line in lines)
        {
            var number = Interlocked.Increment(ref _lines);
            await _input.SendAsync(new[] { MessageBatch.Create(player, new ProducerId(2, 1, 0), number, new BatchMessage(Encoding.UTF8.GetBytes(line))) }, CancellationToken.None);
        }
    }

    /// <summary>Waits until all lines of a player are answered.</summary>
    public async Task WhenAnsweredAsync(OutputHandle player)
    {
        await _input.WhenTakenAsync(player, CancellationToken.None).WithinDeadline();

        // The game answers one line after another, and takes this one when the last is answered.
        await TypeAsync(player, "think");
        await _input.WhenTakenAsync(player, CancellationToken.None).WithinDeadline();
    }

    /// <summary>Waits until all that was typed is answered and sent.</summary>
    public async Task StopAsync()
    {
        _input.Complete();
        await _running.WithinDeadline();
        await _output.FlushAsync().WithinDeadline();
    }

    public async ValueTask DisposeAsync()
    {
        await StopAsync();
        await _output.DisposeAsync();
    }

    private sealed class StallingHop : IBatchTransport
    {
        private readonly List<string[]> _sends = [];
        private volatile string? _text;
        private TaskCompletionSource _begun = new();
        private TaskCompletionSource _released = new();

        public IReadOnlyList<string[]> Sends
        {
            get
            {
                lock (_sends)
                    return [.. _sends];
            }
        }

        public (Task Begun, TaskCompletionSource Released) StallAt(string text)
        {
            (_begun, _released) = (new(TaskCreationOptions.RunContinuationsAsynchronously), new(TaskCreationOptions.RunContinuationsAsynchronously));
            _text = text;
            return (_begun.Task, _released);
        }

        public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            string[] lines = [.. batches.ToArray().SelectMany(LinesOf)];
            lock (_sends)
                _sends.Add(lines);
            if (_text is not { } text || !lines.Any(line => line.StartsWith(text, StringComparison.Ordinal)))
                return;
            _text = null;
            _begun.SetResult();
            await _released.Task;
        }

        private static IEnumerable<string> LinesOf(MessageBatch batch)
        {
            foreach (var message in batch)
                yield return Encoding.UTF8.GetString(message.Payload.Span).TrimEnd();
        }
    }
}
