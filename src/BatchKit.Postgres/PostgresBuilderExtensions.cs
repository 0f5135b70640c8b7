using BatchKit;
using BatchKit.Postgres;
using BatchKit.Transports;

namespace Microsoft.Extensions.DependencyInjection;

/// <summary>Sends a buffer's output to queues in PostgreSQL, receives from there, and stores output in an outbox.</summary>
/// <remarks>
/// Everything here takes an <see cref="Npgsql.NpgsqlDataSource"/> from the services: one with the buffer's name as key if there is one, else the one without. Options are named like the buffer, or the
/// queue. Health checks: <c>batchkit-postgres</c>, or <c>batchkit-postgres-name</c>.
/// </remarks>
public static class PostgresBuilderExtensions
{
    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output leaves to queues in PostgreSQL.</summary>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="configure">Sets the options.</param>
    /// <param name="partitions">Ordered lanes; see <see cref="OutputRoute"/>.</param>
    public static BatchKitBuilder UsePostgres(this BatchKitBuilder builder, Action<PostgresOptions>? configure = null, int partitions = 1) => throw new NotSupportedException();

    /// <summary>Takes the frames of a queue (<see cref="PostgresOptions.FrameQueue"/> of their sender) and hands their batches to the next transport, in order and once, from the host's start to its stop.</summary>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="queue">The queue's name.</param>
    /// <param name="next">Finds the transport that gets the batches.</param>
    /// <param name="configure">Sets the options.</param>
    public static BatchKitBuilder ReceiveFromPostgres(
        this BatchKitBuilder builder, string queue, Func<IServiceProvider, IBatchTransport> next, Action<PostgresQueueReceiverOptions>? configure = null) => throw new NotSupportedException();

    /// <summary>Adds the route <see cref="LocalFirstRouter.RemoteRoute"/>: output is stored in an outbox, and sent on from there by another transport.</summary>
    /// <param name="builder">What <c>AddBatchKit</c> returned.</param>
    /// <param name="inner">Makes the transport that sends on; the services dispose it.</param>
    /// <param name="configure">Sets the options.</param>
    public static BatchKitBuilder UsePostgresOutbox(
        this BatchKitBuilder builder, Func<IServiceProvider, IBatchTransport> inner, Action<PostgresOutboxOptions>? configure = null) => throw new NotSupportedException();

    /// <summary>Has the messages of a queue handled, from the host's start to its stop. Once a queue; call it for as many queues as you like.</summary>
    /// <param name="services">The services.</param>
    /// <param name="queue">The queue's name, and that of its <see cref="PostgresQueueReceiverOptions"/>.</param>
    /// <param name="handler">Finds the handler; take it from the services, which dispose it.</param>
    /// <param name="configure">Sets the options.</param>
    public static IServiceCollection AddPostgresQueueReceiver(
        this IServiceCollection services, string queue, Func<IServiceProvider, IQueueHandler> handler, Action<PostgresQueueReceiverOptions>? configure = null) => throw new NotSupportedException();
}
