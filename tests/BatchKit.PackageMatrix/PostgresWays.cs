using BatchKit.Postgres;
using BatchKit.RabbitMQ;
using Microsoft.Extensions.DependencyInjection;
using Npgsql;

namespace BatchKit.PackageMatrix;

internal static class PostgresWays
{
    private const string Orders = "orders";

    public static IEnumerable<Way> All(Servers servers) => [Own(servers), Applications(servers), Outbox(servers)];

    private static Way Own(Servers servers)
    {
        var schema = Schema();
        return new Way("PostgreSQL, a data source of the buffer's own", OutputHandle.Named(Orders), services =>
        {
            services.AddKeyedSingleton(Orders, (_, _) => NpgsqlDataSource.Create(servers.Postgres.ConnectionString));
            services.AddBatchKit(Orders).UsePostgres(options => options.Schema = schema).ReceiveFromPostgres<ArrivalHandler>(Orders, options => Receive(options, schema));
        })
        {
            Buffer = Orders,
        };
    }

    private static Way Applications(Servers servers)
    {
        var schema = Schema();
        return new Way("PostgreSQL, the application's data source", OutputHandle.Named(Orders), services =>
        {
            services.AddSingleton(_ => new NpgsqlDataSourceBuilder(servers.Postgres.ConnectionString) { Name = "application" }.Build());
            services.AddBatchKit().UsePostgres(options => options.Schema = schema).ReceiveFromPostgres<ArrivalHandler>(Orders, options => Receive(options, schema));
        });
    }

    private static Way Outbox(Servers servers)
    {
        var schema = Schema();
        void Connect(RabbitMqOptions options)
        {
            options.Prefix = schema;
            options.ConnectionString = servers.RabbitMq.Address.ToString();
        }

        return new Way("PostgreSQL, an outbox over RabbitMQ", Ways.Connection, services =>
        {
            services.AddSingleton(_ => NpgsqlDataSource.Create(servers.Postgres.ConnectionString));
            services.AddBatchKit(static options => options.Node = Ways.Node).UsePostgresOutbox(_ =>
            {
                var options = new RabbitMqOptions();
                Connect(options);
                return new RabbitMqTransport(options);
            }, options => options.Schema = schema).ReceiveFromRabbitMq<ArrivalHandler>(Connect);
        });
    }

    // One worker, because workers handle batches side by side.
    private static void Receive(PostgresQueueReceiverOptions options, string schema)
    {
        options.Schema = schema;
        options.Concurrency = 1;
    }

    private static string Schema() => Ways.Name().Replace('-', '_');
}
