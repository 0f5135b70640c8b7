using System.Text;
using BatchKit.Sessions;
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
    private readonly StallingHop _hop = new();
    private readonly OutputBuffer _output;
    private readonly SessionTransport _sessions;
    private readonly OutputBuffer _away;
    private readonly GameInput _input;
    private readonly Task _running;
    private long _lines;

    public GameAlone(bool isBuffered = true)
    {
        _output = new OutputBuffer(_hop);
        _input = new GameInput(discardsWhenStopped: true, Clock);
        _sessions = new SessionTransport(() => _output, new SessionOptions { AwayTimeout = TimeSpan.FromSeconds(60) }, new NodeNumber(1), Clock);
        _away = new OutputBuffer(_sessions);
        var shards = new Shards(home: 1, count: 1);
        var settings = new GameSettings(isBuffered, ClosesConnections: true, "a script", FirstNode: 1, TimeSpan.FromSeconds(60));
        var world = new World(LanternIsle.Create(), shards);
        var peers = new Peers(world, shards, settings, firstNode: 1, output: null, Clock);
        var output = new GameOutput(_output, _away, _sessions, peers);
        var who = new WhoList(world, Clock);
        var comparison = new Comparison(_output, settings, static () => Task.FromResult<ComparisonHop?>(null), Clock);
        var interpreter = new Interpreter(world, output, IslandCommands.Create(world, who, comparison), SoftcodeLimits.Standard, new Random(1), Clock);
        var slowAnswers = new SlowAnswers(_input, _output, Clock, NullLogger<SlowAnswers>.Instance);
        var loop = new GameLoop(
            _input, _output, output, world, new Lobby(world, output, who, shards, new Passwords(output, _input)), interpreter, settings, shards, peers,
            static _ => Task.CompletedTask, _sessions, slowAnswers, Clock, NullLogger<GameLoop>.Instance);
        _running = Task.Run(loop.RunAsync);
    }

    /// <summary>It stands still until a test advances it, so that nothing is given up.</summary>
    public ManualTimeProvider Clock { get; } = new();

    /// <summary>The lines of each send that has begun, in order.</summary>
    public IReadOnlyList<string[]> Sends => _hop.Sends;

    /// <summary>Stalls the next send with a line that begins so.</summary>
    /// <returns>A task that completes when the send is there, and its release.</returns>
    public (Task Begun, TaskCompletionSource Released) StallAt(string text) => _hop.StallAt(text);

    /// <summary>A player types lines.</summary>
    public async Task TypeAsync(OutputHandle player, params string[] lines)
    {
        foreach (var line in lines)
            await SendAsync(player, new BatchMessage(Encoding.UTF8.GetBytes(line)));
    }

    /// <summary>The gateway of a player ends.</summary>
    public Task LeaveAsync(OutputHandle player) => SendAsync(player, new BatchMessage(ReadOnlyMemory<byte>.Empty, InputMessage.HeaderFor(InputKind.Leaving)));

    /// <summary>Waits until all lines of a player are answered, and what they wrote waits for players that are away.</summary>
    public async Task WhenAnsweredAsync(OutputHandle player)
    {
        await _input.WhenTakenAsync(player, CancellationToken.None).WithinDeadline();

        // The game answers one line after another, and takes this one when the last is answered.
        await TypeAsync(player, "think");
        await _input.WhenTakenAsync(player, CancellationToken.None).WithinDeadline();
        await _away.FlushAsync().WithinDeadline();
    }

    /// <summary>The lines that went to a handle, without prompts and control messages.</summary>
    public async Task<IReadOnlyList<string>> ReadAsync(OutputHandle handle)
    {
        await _output.FlushAsync().WithinDeadline();
        return _hop.LinesTo(handle);
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
        await _away.DisposeAsync();
        await _output.DisposeAsync();
        await _sessions.DisposeAsync();
    }

    private async Task SendAsync(OutputHandle player, BatchMessage message)
    {
        var number = Interlocked.Increment(ref _lines);
        await _input.SendAsync(new[] { MessageBatch.Create(player, new ProducerId(2, 1, 0), number, message) }, CancellationToken.None);
    }

    private sealed class StallingHop : IBatchTransport
    {
        private readonly List<string[]> _sends = [];
        private readonly List<(OutputHandle Handle, string Line)> _lines = [];
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

        public IReadOnlyList<string> LinesTo(OutputHandle handle)
        {
            lock (_sends)
                return [.. _lines.Where(line => line.Handle == handle).Select(line => line.Line)];
        }

        public (Task Begun, TaskCompletionSource Released) StallAt(string text)
        {
            (_begun, _released) = (new(TaskCreationOptions.RunContinuationsAsynchronously), new(TaskCreationOptions.RunContinuationsAsynchronously));
            _text = text;
            return (_begun.Task, _released);
        }

        public async ValueTask SendAsync(ReadOnlyMemory<MessageBatch> batches, CancellationToken cancellationToken)
        {
            (OutputHandle Handle, MessageKind Kind, string Text)[] messages = [.. batches.ToArray().SelectMany(MessagesOf)];
            string[] lines = [.. messages.Select(message => message.Text)];
            lock (_sends)
            {
                _sends.Add(lines);
                _lines.AddRange(from message in messages where message.Kind == MessageKind.Output select (message.Handle, message.Text));
            }

            if (_text is not { } text || !lines.Any(line => line.StartsWith(text, StringComparison.Ordinal)))
                return;
            _text = null;
            _begun.SetResult();
            await _released.Task;
        }

        private static IEnumerable<(OutputHandle Handle, MessageKind Kind, string Text)> MessagesOf(MessageBatch batch)
        {
            foreach (var message in batch)
                yield return (batch.Handle, message.Kind, Encoding.UTF8.GetString(message.Payload.Span).Replace("\u001b[0m", string.Empty, StringComparison.Ordinal).TrimEnd());
        }
    }
}
