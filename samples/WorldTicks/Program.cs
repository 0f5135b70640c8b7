using WorldTicks.Hosting;

return await TicksProgram.RunAsync(args);
