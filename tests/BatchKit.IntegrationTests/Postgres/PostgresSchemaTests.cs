using BatchKit.Postgres;
using BatchKit.TestServers.Postgres;
using Npgsql;

namespace BatchKit.IntegrationTests.Postgres;

/// <summary>The tables come into being once, whoever asks and however often, in whatever schema.</summary>
public sealed class PostgresSchemaTests(PostgresFixture postgres)
{
    private const string Emoji = "\U0001F480 w\u00f6rld \u4e16\u754c";

    public static TheoryData<string> HostileNames =>
    [
        "\"; drop schema public cascade; --",
        "\"\"",
        "it's; $1 @p :p {s} \\ % --",
        "/* open",
        " ",
        "a.b",
        Emoji,
        "tab\tnew\nline",
        new string('n', 63),
        new string('\u00f6', 31),
    ];

    [Fact]
    public async Task Tables_are_there_after_the_first_time_and_stay_as_they_are_after_the_second()
    {
        await using var schema = await postgres.NewSchemaAsync();

        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);
        await schema.ExecuteAsync("insert into {s}.queues (name) values ('kept')");
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);

        Assert.Equal(["kept"], await schema.ColumnAsync<string>("select name from {s}.queues"));
        Assert.Equal([PostgresSchema.Version], await schema.ColumnAsync<int>("select number from {s}.version"));
    }

    [Fact]
    public async Task The_script_run_by_hand_makes_what_the_package_makes()
    {
        await using var byHand = await postgres.NewSchemaAsync();
        await using var byPackage = await postgres.NewSchemaAsync();

        await byHand.ExecuteAsync(PostgresSchema.GetScript(byHand.Name));
        await PostgresSchema.EnsureSchemaAsync(byPackage.DataSource, byPackage.Name, TestContext.Current.CancellationToken);

        var described = await DescribeAsync(byPackage);
        Assert.Contains(described, line => line.Contains("messages_ready", StringComparison.Ordinal));
        Assert.Equal(described, await DescribeAsync(byHand));
        await PostgresSchema.EnsureSchemaAsync(byHand.DataSource, byHand.Name, TestContext.Current.CancellationToken);
    }

    [Fact]
    public async Task Twenty_at_once_make_it_once()
    {
        await using var schema = await postgres.NewSchemaAsync();

        await Task.WhenAll(Enumerable.Range(0, 20).Select(_ => Task.Run(() => PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name))));

        Assert.Equal([PostgresSchema.Version], await schema.ColumnAsync<int>("select number from {s}.version"));
    }

    [Fact]
    public async Task A_later_version_is_refused_with_both_numbers_and_left_alone()
    {
        await using var schema = await postgres.NewSchemaAsync();
        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);
        await schema.ExecuteAsync("update {s}.version set number = 4711");

        var error = await Assert.ThrowsAsync<InvalidOperationException>(() => PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name));

        Assert.Contains("4711", error.Message, StringComparison.Ordinal);
        Assert.Contains($"version {PostgresSchema.Version}.", error.Message, StringComparison.Ordinal);
        Assert.Equal([4711], await schema.ColumnAsync<int>("select number from {s}.version"));
    }

    [Theory]
    [MemberData(nameof(HostileNames))]
    public async Task A_schema_may_have_any_name_that_fits(string name)
    {
        var own = $"{name}{Guid.NewGuid():N}"[..Math.Min(name.Length, 20)] + name[Math.Min(name.Length, 20)..];
        await using var schema = await postgres.NewSchemaAsync(own);

        await PostgresSchema.EnsureSchemaAsync(schema.DataSource, own, TestContext.Current.CancellationToken);

        Assert.Equal([PostgresSchema.Version], await schema.ColumnAsync<int>("select number from {s}.version"));
        Assert.Equal(1L, await schema.ScalarAsync<long>("select count(*) from pg_namespace where nspname = 'public'"));
    }

    [Fact]
    public async Task A_name_that_PostgreSQL_cannot_take_is_refused()
    {
        await using var schema = await postgres.NewSchemaAsync();

        foreach (var (name, reason) in new[] { ("", "must not be empty"), ("nul\0", "NUL"), ("half \ud800", "surrogate") })
        {
            var error = await Assert.ThrowsAsync<ArgumentException>(() => PostgresSchema.EnsureSchemaAsync(schema.DataSource, name));
            Assert.Contains(reason, error.Message, StringComparison.Ordinal);
            Assert.Throws<ArgumentException>(() => PostgresSchema.GetScript(name));
        }
    }

    [Fact]
    public async Task A_name_of_64_bytes_is_refused_because_PostgreSQL_would_cut_it()
    {
        await using var schema = await postgres.NewSchemaAsync();

        var error = await Assert.ThrowsAsync<ArgumentException>(() => PostgresSchema.EnsureSchemaAsync(schema.DataSource, new string('n', 64)));

        Assert.Contains("64 UTF-8 bytes", error.Message, StringComparison.Ordinal);
        Assert.Throws<ArgumentException>(() => PostgresSchema.GetScript(new string('\u00f6', 32)));
    }

    [Fact]
    public async Task Two_schemas_beside_each_other_know_nothing_of_each_other()
    {
        await using var first = await postgres.NewSchemaAsync();
        await using var second = await postgres.NewSchemaAsync();
        await PostgresSchema.EnsureSchemaAsync(first.DataSource, first.Name, TestContext.Current.CancellationToken);

        Assert.Equal(0L, await second.ScalarAsync<long>($"select count(*) from pg_namespace where nspname = '{second.Name}'"));
        await PostgresSchema.EnsureSchemaAsync(second.DataSource, second.Name, TestContext.Current.CancellationToken);

        await first.ExecuteAsync("insert into {s}.queues (name) values ('one')");
        Assert.Equal(0L, await second.ScalarAsync<long>("select count(*) from {s}.queues"));
    }

    [Fact]
    public async Task A_user_without_the_right_is_told_what_to_do_and_may_use_what_another_made()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var user = $"user_{Guid.NewGuid():N}";
        await schema.ExecuteAsync($"create role {user} login password 'test'");
        await using var dataSource = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(schema.DataSource.ConnectionString) { Username = user, Password = "test" });
        try
        {
            var error = await Assert.ThrowsAsync<InvalidOperationException>(() => PostgresSchema.EnsureSchemaAsync(dataSource, schema.Name));

            Assert.Contains("GetScript", error.Message, StringComparison.Ordinal);
            Assert.Contains("permission denied", error.Message, StringComparison.Ordinal);
            await PostgresSchema.EnsureSchemaAsync(schema.DataSource, schema.Name, TestContext.Current.CancellationToken);
            await schema.ExecuteAsync($"grant usage on schema {{s}} to {user}; grant select on all tables in schema {{s}} to {user}");
            await PostgresSchema.EnsureSchemaAsync(dataSource, schema.Name, TestContext.Current.CancellationToken);
        }
        finally
        {
            await schema.ExecuteAsync($"drop owned by {user}; drop role {user}");
        }
    }

    [Fact]
    public async Task A_user_who_may_fill_a_schema_needs_no_right_to_create_one()
    {
        await using var schema = await postgres.NewSchemaAsync();
        var user = $"user_{Guid.NewGuid():N}";
        await schema.ExecuteAsync($"create role {user} login password 'test'; create schema {{s}} authorization {user}");
        await using (var dataSource = NpgsqlDataSource.Create(new NpgsqlConnectionStringBuilder(schema.DataSource.ConnectionString) { Username = user, Password = "test" }))
            await PostgresSchema.EnsureSchemaAsync(dataSource, schema.Name, TestContext.Current.CancellationToken);

        Assert.Equal([PostgresSchema.Version], await schema.ColumnAsync<int>("select number from {s}.version"));
        await schema.ExecuteAsync($"drop owned by {user} cascade; drop role {user}");
    }

    [Fact]
    public async Task A_script_from_the_present_version_is_empty_and_from_an_unknown_one_refused()
    {
        await using var schema = await postgres.NewSchemaAsync();

        Assert.Empty(PostgresSchema.GetScript(schema.Name, PostgresSchema.Version));
        Assert.Throws<ArgumentOutOfRangeException>(() => PostgresSchema.GetScript(schema.Name, PostgresSchema.Version + 1));
        Assert.Throws<ArgumentOutOfRangeException>(() => PostgresSchema.GetScript(schema.Name, -1));
    }

    private static Task<List<string>> DescribeAsync(TestSchema schema) => schema.ColumnAsync<string>(
        $$"""
        select line from (
            select 'column ' || c.relname || '.' || a.attnum || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' '
                || a.attnotnull::text || ' ' || a.attstorage::text || ' ' || a.attidentity::text || ' ' || coalesce(pg_get_expr(d.adbin, d.adrelid), '') as line
            from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 left join pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
            where c.relnamespace = '{s}'::regnamespace and c.relkind = 'r'
            union all
            select 'index ' || replace(indexdef, '{{schema.Name}}', 's') from pg_indexes where schemaname = '{{schema.Name}}'
            union all
            select 'options ' || c.relname || ' ' || coalesce(c.reloptions::text, '') || ' ' || coalesce(t.reloptions::text, '')
            from pg_class c left join pg_class t on t.oid = c.reltoastrelid where c.relnamespace = '{s}'::regnamespace and c.relkind = 'r'
            union all
            select 'rows of version ' || number from {s}.version) as lines
        order by line
        """);
}
