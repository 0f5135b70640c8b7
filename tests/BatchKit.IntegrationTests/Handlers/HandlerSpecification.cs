using System.Text;
using System.Text.Json.Serialization;
using BatchKit.Testing;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Hosting;

namespace BatchKit.IntegrationTests.Handlers;

/// <summary>What a handler may rely on, whichever broker its messages come from. The receiving host has no route.</summary>
public abstract class HandlerSpecification
{
    [Fact]
    public async Task Each_batch_is_handled_in_a_scope_that_is_disposed_behind_it()
    {
        await using var scene = await StartAsync();

        await scene.SendAsync("a", "b", "c");
        await scene.Journal.WaitForAsync(3);
        await scene.SendAsync("d", "e");
        await scene.Journal.WaitForAsync(5);

        await Until.TrueAsync(() => scene.Journal.DisposedScopes == scene.Journal.Batches);
        Assert.Equal(["a", "b", "c", "d", "e"], scene.Journal.Texts.Order(StringComparer.Ordinal));
        Assert.False(scene.Journal.SawDisposedScope);
        Assert.InRange(scene.Journal.Batches, 2, 5);
    }

    [Fact]
    public async Task A_typed_message_is_read_by_the_buffers_codec()
    {
        await using var scene = await StartAsync();
        var readings = new TaskCompletionSource<Reading>(TaskCreationOptions.RunContinuationsAsynchronously);
        scene.Journal.OnMessage = message => readings.TrySetResult(message.TryRead<Reading>(out var reading) ? reading : null!);

        scene.Sender.GetRequiredService<TypedOutput>().Write(scene.Destination, new Reading("cellar", 21.5));

        Assert.Equal(new Reading("cellar", 21.5), await readings.Task.WithinDeadline());
    }

    [Fact]
    public async Task A_message_carries_what_its_sender_wrote_beside_its_bytes()
    {
        await using var scene = await StartAsync();
        var headers = new TaskCompletionSource<(OutputHandle, MessageHeader?)>(TaskCreationOptions.RunContinuationsAsynchronously);
        scene.Journal.OnMessage = message => headers.TrySetResult((message.Handle, message.Header));
        var header = new MessageHeader
        {
            ContentType = "text/plain",
            ReplyTo = "answers/7",
            CorrelationData = [0, 7, 255],
            Properties = [new("unit", "celsius"), new("unit", "again")],
        };

        scene.Output.Write(scene.Destination, "21.5"u8, header);

        var (handle, received) = await headers.Task.WithinDeadline();
        Assert.Equal(scene.Destination, handle);
        Assert.Equivalent(header, received, strict: true);
    }

    [Fact]
    public async Task A_handler_that_fails_gets_its_messages_again()
    {
        await using var scene = await StartAsync();
        scene.Journal.FailuresLeft = 1;

        await scene.SendAsync("a", "b", "c");

        await Until.TrueAsync(() => scene.Journal.Texts.Distinct().Count() == 3);
        Assert.Equal(0, scene.Journal.FailuresLeft);
        Assert.Equal(0, await scene.CountRefusedAsync());
    }

    [Fact]
    public async Task A_refused_message_leaves_the_others_of_its_batch_handled()
    {
        await using var scene = await StartAsync();
        scene.Journal.OnMessage = static message =>
        {
            if (message.Payload.Span.SequenceEqual("bad"u8))
                message.Refuse("It is bad.");
        };

        await scene.SendAsync("a", "bad", "c");

        await scene.Journal.WaitForAsync(3);
        await Until.TrueAsync(async () => await scene.CountRefusedAsync() == 1);
        Assert.Equal(["a", "bad", "c"], scene.Journal.Texts.Order(StringComparer.Ordinal));
    }

    /// <summary>Connects to a broker, with a destination that no other test has.</summary>
    private protected abstract Task<HandlerPath> ConnectAsync();

    private protected Task<HandlerScene> StartAsync() => HandlerScene.StartAsync(ConnectAsync);
}

/// <summary>The sending and the receiving host of one test.</summary>
internal sealed class HandlerScene : IAsyncDisposable
{
    private readonly HandlerPath _path;
    private readonly IHost _sender;
    private readonly IHost _receiver;

    private HandlerScene(HandlerPath path, IHost sender, IHost receiver) => (_path, _sender, _receiver) = (path, sender, receiver);

    public Journal Journal => _receiver.Services.GetRequiredService<Journal>();

    public OutputHandle Destination => _path.Destination;

    public IServiceProvider Sender => _sender.Services;

    public IOutputBuffer Output => Sender.GetRequiredService<IOutputBuffer>();

    public static async Task<HandlerScene> StartAsync(Func<Task<HandlerPath>> connect)
    {
        var path = await connect();
        var receiver = Build(node: 2, (services, builder) =>
        {
            services.AddSingleton<Journal>().AddScoped<Visit>();
            path.AddReceiver(builder);
        });
        await receiver.StartAsync().WithinDeadline();
        await path.ReadyAsync(receiver.Services).WithinDeadline();
        var sender = Build(node: 1, (_, builder) => path.AddSender(builder));
        await sender.StartAsync().WithinDeadline();
        return new HandlerScene(path, sender, receiver);
    }

    public async Task SendAsync(params string[] texts)
    {
        await using (Output.BeginBufferingScope(Destination))
        {
            foreach (var text in texts)
                Output.Write(Destination, Some.Bytes(text));
        }
    }

    public Task<long> CountRefusedAsync() => _path.CountRefusedAsync(_receiver.Services);

    public async ValueTask DisposeAsync()
    {
        foreach (var host in new[] { _sender, _receiver })
        {
            await host.StopAsync().WithinDeadline();
            await ((IAsyncDisposable)host).DisposeAsync();
        }

        await _path.DisposeAsync();
    }

    private static IHost Build(int node, Action<IServiceCollection, BatchKitBuilder> add)
    {
        var application = Host.CreateEmptyApplicationBuilder(settings: null);
        application.Services.AddLogging();
        add(application.Services, application.Services.AddBatchKit(options => options.Node = node).UseJson(HandlerJson.Default));
        return application.Build();
    }
}

/// <summary>A broker as both hosts use it.</summary>
internal abstract class HandlerPath : IAsyncDisposable
{
    public abstract OutputHandle Destination { get; }

    public abstract void AddSender(BatchKitBuilder builder);

    public abstract void AddReceiver(BatchKitBuilder builder);

    public virtual Task ReadyAsync(IServiceProvider services) => Task.CompletedTask;

    public abstract Task<long> CountRefusedAsync(IServiceProvider services);

    public abstract ValueTask DisposeAsync();
}

/// <summary>What the handlers of one host did. Thread-safe.</summary>
internal sealed class Journal
{
    private readonly Lock _lock = new();
    private readonly List<string> _texts = [];
    private int _failuresLeft;
    private int _batches;
    private int _disposedScopes;

    public Action<ReceivedMessage> OnMessage { get; set; } = static _ => { };

    public int FailuresLeft
    {
        get => Volatile.Read(ref _failuresLeft);
        set => Volatile.Write(ref _failuresLeft, value);
    }

    public int Batches => Volatile.Read(ref _batches);

    public int DisposedScopes => Volatile.Read(ref _disposedScopes);

    public bool SawDisposedScope { get; private set; }

    public IReadOnlyList<string> Texts
    {
        get
        {
            lock (_lock)
                return [.. _texts];
        }
    }

    public void Disposed() => Interlocked.Increment(ref _disposedScopes);

    public void Handle(IReadOnlyList<ReceivedMessage> batch, Visit visit)
    {
        Interlocked.Increment(ref _batches);
        SawDisposedScope |= visit.IsDisposed;
        if (FailuresLeft > 0)
        {
            FailuresLeft--;
            throw new InvalidOperationException("The handler fails.");
        }

        foreach (var message in batch)
        {
            OnMessage(message);
            lock (_lock)
                _texts.Add(Encoding.UTF8.GetString(message.Payload.Span));
        }
    }

    public Task WaitForAsync(int messages) => Until.TrueAsync(() => Texts.Count >= messages);
}

/// <summary>A scoped service, as a unit of work is.</summary>
internal sealed class Visit(Journal journal) : IAsyncDisposable
{
    public bool IsDisposed { get; private set; }

    public ValueTask DisposeAsync()
    {
        IsDisposed = true;
        journal.Disposed();
        return ValueTask.CompletedTask;
    }
}

/// <summary>A handler as a user writes it: with a scoped service.</summary>
internal sealed class JournalHandler(Journal journal, Visit visit) : IMessageHandler
{
    public async ValueTask HandleAsync(IReadOnlyList<ReceivedMessage> batch, CancellationToken cancellationToken)
    {
        await Task.Yield();
        journal.Handle(batch, visit);
    }
}

internal sealed record Reading(string Sensor, double Celsius);

[JsonSerializable(typeof(Reading))]
internal sealed partial class HandlerJson : JsonSerializerContext;
