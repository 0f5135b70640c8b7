using System.Net;
using System.Net.Sockets;
using System.Threading.Channels;
using BatchKit.Broadcast.Tcp;
using BatchKit.Testing;

namespace BatchKit.Broadcast.Tests.Tcp;

public sealed class AcceptLoopTests
{
    private readonly ManualTimeProvider _clock = new();
    private readonly LogCollector _logger = new();
    private readonly Channel<SocketError> _outcomes = Channel.CreateUnbounded<SocketError>();
    private readonly Channel<Socket> _taken = Channel.CreateUnbounded<Socket>();

    [Theory]
    [InlineData(SocketError.TooManyOpenSockets)]
    [InlineData(SocketError.NoBufferSpaceAvailable)]
    public async Task At_the_limit_of_file_handles_it_tries_again_after_a_pause(SocketError error)
    {
        using var stopping = new CancellationTokenSource();
        var running = Start(stopping.Token);

        _outcomes.Writer.TryWrite(error);
        _outcomes.Writer.TryWrite(SocketError.Success);
        await _clock.WaitForTimersAsync();
        Assert.False(_taken.Reader.TryPeek(out _));
        _clock.AdvanceToNextTimer();

        await _taken.Reader.ReadAsync().WithinDeadline();
        Assert.Contains("127.0.0.1:4000", Assert.Single(_logger.Entries).Text);
        await stopping.CancelAsync();
        await running.WithinDeadline();
    }

    [Theory]
    [InlineData(SocketError.ConnectionReset)]
    [InlineData(SocketError.ConnectionAborted)]
    public async Task A_client_that_is_gone_before_it_is_accepted_holds_up_nobody(SocketError error)
    {
        using var stopping = new CancellationTokenSource();
        var running = Start(stopping.Token);

        _outcomes.Writer.TryWrite(error);
        _outcomes.Writer.TryWrite(SocketError.Success);

        await _taken.Reader.ReadAsync().WithinDeadline();
        Assert.Equal(0, _clock.ArmedTimers);
        await stopping.CancelAsync();
        await running.WithinDeadline();
    }

    [Fact]
    public async Task It_can_be_stopped_in_a_pause()
    {
        using var stopping = new CancellationTokenSource();
        var running = Start(stopping.Token);

        _outcomes.Writer.TryWrite(SocketError.TooManyOpenSockets);
        await _clock.WaitForTimersAsync();
        await stopping.CancelAsync();

        await running.WithinDeadline();
    }

    [Fact]
    public async Task It_accepts_although_what_has_started_it_blocks_its_scheduler()
    {
        using var stopping = new CancellationTokenSource();
        using var accepted = new ManualResetEventSlim();
        var running = Task.Factory.StartNew(
            () =>
            {
                var loop = Start(stopping.Token);
                Assert.True(accepted.Wait(Deadline.Time));
                return loop;
            },
            CancellationToken.None, TaskCreationOptions.None, new ConcurrentExclusiveSchedulerPair().ExclusiveScheduler).Unwrap();

        _outcomes.Writer.TryWrite(SocketError.Success);
        await _taken.Reader.ReadAsync().WithinDeadline();

        accepted.Set();
        await stopping.CancelAsync();
        await running.WithinDeadline();
    }

    private Task Start(CancellationToken cancellationToken)
    {
        var loop = new AcceptLoop(AcceptAsync, socket => _taken.Writer.TryWrite(socket), new IPEndPoint(IPAddress.Loopback, 4000), _clock, _logger);
        return loop.RunAsync(cancellationToken);
    }

    private async ValueTask<Socket> AcceptAsync(CancellationToken cancellationToken)
    {
        var outcome = await _outcomes.Reader.ReadAsync(cancellationToken);
        return outcome == SocketError.Success ? new Socket(SocketType.Stream, ProtocolType.Tcp) : throw new SocketException((int)outcome);
    }
}
